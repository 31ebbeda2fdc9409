//! Everything that leaves the program fits its published schema.

use jsonschema::Validator;
use serde_json::Value;

use crate::env;

fn schema(name: &str) -> Validator {
    let text = env().run(&["schema", name]).stdout;
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn fits(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:?}: {value}");
}

#[test]
fn envelopes_receipts_state_feedback_and_heartbeat_fit_their_schemas() {
    let env = env();
    env.shell("printf 'a\\nb\\n' >s");
    let exec = "cp \"$LOOPEXEC_FEEDBACK\" feedback.json; cp .loopexec/heartbeat beat.json; echo x >>n; sleep 300 &";
    let run = [
        "--json",
        "run",
        "--exec",
        exec,
        "--check",
        "test $(wc -l <n) -ge 3",
        "--integrity-cmd",
        "cat s",
        "--failures-cmd",
        "seq $(wc -l <n) 4",
        "--model-id",
        "m",
        "--cost-usd",
        "1.5",
    ];
    let envelope = schema("envelope");
    fits(&envelope, &env.run(&run).json(), "run");
    let commands: [&[&str]; 14] = [
        &["status"],
        &["explain-halt"],
        &["report"],
        &["verify"],
        &["check"],
        &["replay"],
        &["attest"],
        &["attest", "--verify"],
        &["runs", "list"],
        &["runs", "du"],
        &["ack", "--show"],
        &["version"],
        &["run", "--bad"],
        &["run", "--check", "true", "--max-iterations", "0"],
    ];
    for arguments in commands {
        let all: Vec<&str> = ["--json"].iter().chain(arguments).copied().collect();
        fits(&envelope, &env.run(&all).json(), &arguments.join(" "));
    }
    let receipt = schema("receipt");
    for event in env.events("local") {
        fits(&receipt, &event, "receipt");
    }
    let parse = |name: &str| serde_json::from_str::<Value>(&env.read(name)).unwrap();
    fits(
        &schema("state"),
        &parse(".loopexec/run-local.state.json"),
        "state",
    );
    fits(&schema("feedback"), &parse("feedback.json"), "feedback");
    fits(&schema("heartbeat"), &parse("beat.json"), "heartbeat");
    for line in env.read(".loopexec/workspace.jsonl").lines() {
        fits(
            &schema("workspace-log"),
            &serde_json::from_str(line).unwrap(),
            "workspace-log",
        );
    }
}

#[test]
fn a_schema_refuses_what_is_not_its_object() {
    let not_a_record = serde_json::json!({"event": "halt", "seq": -1});
    assert!(!schema("receipt").is_valid(&not_a_record));
    assert!(!schema("envelope").is_valid(&serde_json::json!({"status": "ok"})));
}

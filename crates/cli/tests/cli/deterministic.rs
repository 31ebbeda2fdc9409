//! What is printed about a finished run is a function of its recorded state: same bytes everywhere, every time.

use crate::env;

#[test]
fn every_reading_command_gives_the_same_bytes_under_any_surroundings() {
    let env = env();
    env.run(&[
        "run",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 3",
        "--failures-cmd",
        "seq $(wc -l <n) 4",
        "--cost-usd",
        "0.25",
        "--model-id",
        "m",
        "--temperature",
        "0.2",
    ]);
    let commands: [&[&str]; 8] = [
        &["status"],
        &["status", "--iteration", "2"],
        &["explain-halt"],
        &["report"],
        &["--json", "report"],
        &["--json", "status"],
        &["verify"],
        &["check"],
    ];
    for arguments in commands {
        let plain = env.run(arguments);
        assert_eq!(plain.code, 0, "{arguments:?}: {}", plain.stderr);
        let mut other = env.command(arguments);
        other
            .env("TZ", "Pacific/Kiritimati")
            .env("LANG", "tr_TR.UTF-8")
            .env("LC_ALL", "tr_TR.UTF-8")
            .env("COLUMNS", "40")
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", "")
            .env("XDG_STATE_HOME", env.home().join(".local/state"))
            .env("HOME", env.path("."));
        let other = other.output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&other.stdout),
            plain.stdout,
            "{arguments:?}"
        );
    }
}

#[test]
fn the_json_is_compact_and_html_characters_are_not_escaped() {
    let env = env();
    let ran = env.run(&["--json", "run", "--check", "test 1 -lt 2 && echo '<a>&'"]);
    assert!(
        ran.stdout.contains("\"status\":\"halted\""),
        "{}",
        ran.stdout
    );
    let report = env.run(&["--json", "report"]).stdout;
    assert!(report.contains("test 1 -lt 2 && echo '<a>&'"), "{report}");
}

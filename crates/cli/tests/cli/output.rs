//! Standard output is data: one object, a closed pipe is silence, a full disk is an error.

use std::process::Stdio;

use crate::env;

#[test]
fn a_closed_pipe_is_silence() {
    let env = env();
    env.run(&["run", "--check", "true"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = env
        .command(&["report"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_standard_output_is_an_error() {
    let env = env();
    let full = fs_err::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = env
        .command(&["--json", "version"])
        .stdout(full.into_file())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(50));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"));
}

#[test]
fn help_and_version_are_data() {
    let env = env();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["help", "verify"],
    ] {
        let ran = env.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(
            ran.stdout.contains("loopexec") || ran.stdout.contains("Usage"),
            "{}",
            ran.stdout
        );
    }
    let nothing = env.run::<&str>(&[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (2, ""));
    assert!(nothing.stderr.contains("Usage"), "{}", nothing.stderr);
}

#[test]
fn a_person_sees_each_iteration_and_what_to_do_next() {
    let env = env();
    let ran = env.run(&[
        "run",
        "--exec",
        "echo x >>n",
        "--check",
        "test $(wc -l <n) -ge 2",
        "--timeout",
        "1m",
        "--command-timeout",
        "10s",
        "--idle-timeout",
        "10s",
    ]);
    assert!(
        ran.stderr.contains("iteration 1/10: check red (exit 1)"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("iteration 2/10: check green (exit 0)"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    assert_eq!(ran.line("verdict"), Some("done"));
    assert_eq!(ran.line("next"), Some("loopexec replay --run-id local"));
    let quiet = env.run(&["run", "--quiet", "--check", "true"]);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn odd_paths_and_bytes_are_no_trouble() {
    let env = env();
    let odd = "with space 'quote' \"double\" \u{e9}\n$(x)";
    fs_err::create_dir(env.path(odd)).unwrap();
    let exec = r"printf '\377\376\000 \033[31mred' ; printf 'x%.0s' $(seq 5000); touch 'a b'";
    let ran = env.run(&[
        "--json",
        "run",
        "--workdir",
        odd,
        "--exec",
        exec,
        "--check",
        "test -f 'a b'",
    ]);
    assert_eq!(ran.code, 10, "{} {}", ran.stdout, ran.stderr);
    assert_eq!(env.run(&["verify", "--workdir", odd]).code, 0);
}

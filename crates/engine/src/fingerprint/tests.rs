//! Digests over whole outputs, and every rule of the stable normaliser.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{
    Digests, Fingerprint, FingerprintError, Joining, KEPT_STDERR_BYTES, NORMALISER_VERSION,
    PIECE_BYTES, STABLE_TEXT_BYTES, Settings, Stream, stable_text,
};
use crate::redact::Redactor;

fn settings() -> Settings {
    Settings {
        normaliser: NORMALISER_VERSION,
        workspaces: vec![b"/home/u/project".to_vec()],
        temporary: vec![b"/scratch/t".to_vec()],
    }
}

fn redactor() -> Redactor {
    Redactor::new([("API_TOKEN", "very-secret-value")]).expect("one value")
}

fn digests(parts: &[(Stream, &[u8])]) -> Digests {
    digests_in(&settings(), parts)
}

fn digests_in(settings: &Settings, parts: &[(Stream, &[u8])]) -> Digests {
    let mut fingerprint = Fingerprint::new(&redactor(), settings).expect("known version");
    for (stream, chunk) in parts {
        fingerprint.push(*stream, chunk);
    }
    fingerprint.finish(0)
}

fn sha256(text: &[u8]) -> String {
    format!("{:x}", Sha256::digest(text))
}

#[track_caller]
fn check(text: &str, expect: &str) {
    let stable = stable_text(text.as_bytes(), &settings()).expect("known version");
    assert_eq!(String::from_utf8_lossy(&stable), expect);
}

#[test]
fn the_output_digest_is_over_trimmed_stdout_nul_trimmed_stderr() {
    let got = digests(&[
        (Stream::Stderr, b"warn \r\n\n"),
        (Stream::Stdout, b"\n a \t\n\nb"),
        (Stream::Stdout, b"  \n\n \n"),
    ]);
    assert_eq!(got.output_sha256, sha256(b"\n a\n\nb\0warn"));
    assert_eq!(got.output_joining, Joining::Concatenated);
    assert_eq!(got.stdout_sha256, sha256(b"\n a \t\n\nb  \n\n \n"));
    assert_eq!(got.stderr_sha256, sha256(b"warn \r\n\n"));
    assert_eq!(digests(&[]).output_sha256, sha256(b"\0"));
}

#[test]
fn secrets_are_replaced_before_anything_is_hashed() {
    let got = digests(&[
        (Stream::Stdout, b"x very-sec"),
        (Stream::Stdout, b"ret-value"),
    ]);
    assert_eq!(got.stdout_sha256, sha256(b"x [redacted:API_TOKEN]"));
    assert_eq!(got.output_sha256, sha256(b"x [redacted:API_TOKEN]\0"));
}

#[test]
fn stderr_over_what_is_kept_is_joined_by_digests() {
    let mut text = vec![b'x'; KEPT_STDERR_BYTES];
    assert_eq!(
        digests(&[(Stream::Stderr, &text)]).output_joining,
        Joining::Concatenated
    );
    text.push(b'y');
    let got = digests(&[(Stream::Stdout, b"out"), (Stream::Stderr, &text)]);
    assert_eq!(got.output_joining, Joining::Digests);
    assert_eq!(
        got.output_sha256,
        sha256(format!("{}\0{}", sha256(b"out"), sha256(&text)).as_bytes())
    );
}

#[test]
fn a_run_of_blanks_is_trimmed_up_to_what_is_held_and_its_beginning_passes_above() {
    let digest = |blanks: usize| {
        digests(&[(
            Stream::Stdout,
            &[b"a".to_vec(), vec![b' '; blanks], b"\n".to_vec()].concat(),
        )])
        .output_sha256
    };
    assert_eq!(digest(64 << 10), sha256(b"a\0"));
    assert_eq!(
        digest((64 << 10) + 1),
        sha256(&[b"a".to_vec(), vec![b' '; 64 << 10], b"\0".to_vec()].concat())
    );
}

#[test]
fn a_long_line_is_cut_at_the_piece_and_a_token_across_the_cut_is_not_seen() {
    let line = |before: usize| format!("{} 12.5ms", "a".repeat(before));
    check(
        &line(PIECE_BYTES - 7),
        &format!("{} <duration>", "a".repeat(PIECE_BYTES - 7)),
    );
    // One byte more, and the unit's last letter is in the next piece: `12.5m` and `s`.
    check(
        &line(PIECE_BYTES - 6),
        &format!("{} <duration>s", "a".repeat(PIECE_BYTES - 6)),
    );
}

#[test]
fn lines_in_another_order_agree_in_the_unordered_digest_only() {
    let digest = |stream: Stream, text: &str| digests(&[(stream, text.as_bytes())]);
    let first = digest(Stream::Stdout, "a ok 0.1s\nb ok\nb ok\n\nok");
    let other_order = digest(Stream::Stdout, "b ok\nok\n\n\na ok 0.2s\nb ok\n");
    assert_eq!(
        first.unordered_output_sha256,
        other_order.unordered_output_sha256
    );
    assert_ne!(first.stable_output_sha256, other_order.stable_output_sha256);
    for text in [
        "a ok 0.1s\nb ok\nok",
        "a ok 0.1s\nb ok\nb ok\nok\nok",
        "a ok 0.1s\nb okb ok\nok",
        "a ok 0.1s\nb ok\nb no\nok",
    ] {
        assert_ne!(
            digest(Stream::Stdout, text).unordered_output_sha256,
            first.unordered_output_sha256,
            "{text:?}"
        );
    }
    let other_stream = digest(Stream::Stderr, "a ok 0.1s\nb ok\nb ok\nok");
    assert_ne!(
        other_stream.unordered_output_sha256,
        first.unordered_output_sha256
    );
}

#[test]
fn an_unknown_normaliser_is_refused() {
    for found in [0, NORMALISER_VERSION + 1] {
        let settings = Settings {
            normaliser: found,
            ..settings()
        };
        assert_eq!(
            stable_text(b"", &settings),
            Err(FingerprintError::UnknownNormaliser { found })
        );
        assert!(Fingerprint::new(&redactor(), &settings).is_err());
    }
}

#[test]
fn terminal_sequences_are_removed() {
    check(
        "\u{1b}[1;32mok\u{1b}[0m \u{1b}]0;title\u{7}x\u{1b}]8;;u\u{1b}\\y\u{1b}(Bz\u{1b}7",
        "ok xyz",
    );
    check("\u{1b}[32m0.12s\u{1b}[0m", "<duration>");
    check("a\u{1b}]unterminated", "aunterminated");
    check("a\u{1b}[12", "a");
}

#[test]
fn durations_become_one_token() {
    check(
        "12 passed in 0.12s (0:01:15)",
        "12 passed in <duration> (<time>)",
    );
    check(
        "12ms, 1m02s; 3.4 seconds. 5 \u{b5}s, 1h 2m 3s",
        "<duration>, <duration>; <duration>. <duration>, <duration>",
    );
    check(
        "took 5 time=\"0.003\" \"elapsed\": 1.2e-05 duration_ms 12.5",
        "took <duration> time=\"<duration>\" \"elapsed\": <duration> duration_ms <duration>",
    );
}

#[test]
fn dates_and_times_become_tokens() {
    check(
        "2026-01-31T12:34:56.789Z 2026-01-31 12:34 +0100 2026/01/31",
        "<time> <time> <date>",
    );
    check(
        "at 1:02:03,456 20260131T123456Z \"ts\":1700000000.5",
        "at <time> <time> \"ts\":<time>",
    );
    check(
        "2026-13-01 2026-01-32x 12:34",
        "2026-13-01 2026-01-32x 12:34",
    );
}

#[test]
fn addresses_process_ids_and_ports_become_tokens() {
    check("0x7ffe01 at 0x1f", "<address> at 0x1f");
    check(
        "pid=123 [pid 5] \"pid\": 77, PID: 9",
        "pid=<pid> [pid <pid>] \"pid\": <pid>, PID: <pid>",
    );
    check("==4321== leak", "==<pid>== leak");
    check(
        "thread 'a::b' (12345) panicked at src/x.rs:12:5:",
        "thread 'a::b' (<pid>) panicked at src/x.rs:12:5:",
    );
    check(
        "127.0.0.1:8080 localhost:1 [::1]:443 http://host.local:99/ port 5",
        "127.0.0.1:<port> localhost:<port> [::1]:<port> http://host.local:<port>/ port <port>",
    );
}

#[test]
fn temporary_paths_and_the_workspace_become_tokens() {
    check(
        "in /tmp/a.b/c d \"/var/folders/x/y\": '/scratch/t/9'",
        "in <tmp> d \"<tmp>\": '<tmp>'",
    );
    check(
        "/tmp, /tmpfile tests/tmp/x /home/u/project/src/a.rs:3 /home/u/project2",
        "/tmp, /tmpfile tests/tmp/x <workspace>/src/a.rs:3 /home/u/project2",
    );
    let settings = Settings {
        workspaces: vec![b"/tmp/copy/".to_vec()],
        ..settings()
    };
    assert_eq!(
        stable_text(b"/tmp/copy/a /tmp/other", &settings).expect("known"),
        b"<workspace>/a <tmp>"
    );
}

#[test]
fn the_hash_in_a_test_programs_name_becomes_a_token() {
    check("deps/unit-0123456789abcdef)", "deps/unit-<hash>)");
    check(
        "deps/unit-0123456789abcde x-0123456789abcdef0",
        "deps/unit-0123456789abcde x-0123456789abcdef0",
    );
}

#[test]
fn what_counts_is_kept() {
    for text in [
        "test result: ok. 12 passed; 1 failed; 0 ignored",
        "ok 3 - test_5s works",
        "src/lib.rs:12:34: expected 3, got 4 (v1.2.3)",
        "3 minimal 4 mixed 5 hosts 6 msgs",
        "100% [1/2] #17",
    ] {
        check(text, text);
    }
}

#[test]
fn stable_text_reads_no_more_than_its_limit() {
    let text = vec![b'x'; STABLE_TEXT_BYTES + 1];
    assert_eq!(
        stable_text(&text, &settings()).expect("known").len(),
        STABLE_TEXT_BYTES
    );
}

/// Small numbers from a seed, so that a failure can be told by its number.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// One honest run: same tests, other timings, paths, ports and order of the two streams.
fn honest_run(seed: u64, tests: &[&str]) -> Digests {
    let mut noise = Noise(seed);
    let workspace = format!("/tmp/run-{}/ws", noise.below(1 << 20));
    let temporary = format!("/tmp/pytest-of-u/pytest-{}", noise.below(500));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    for name in tests {
        stdout += &format!(
            "{workspace}/tests/a.py::{name} PASSED \u{1b}[33m[{}ms]\u{1b}[0m\n",
            noise.below(900)
        );
        stderr += &format!(
            "2026-11-{:02}T{:02}:00:01.{}Z [pid {}] using {temporary}/{name}0 on 127.0.0.1:{} at 0x{:08x}\n",
            1 + noise.below(28),
            noise.below(24),
            noise.below(999),
            2 + noise.below(60_000),
            1024 + noise.below(60_000),
            noise.below(u64::from(u32::MAX)),
        );
    }
    stdout += &format!(
        "{} passed in {}.{:02}s\n",
        tests.len(),
        noise.below(9),
        noise.below(99)
    );
    let settings = Settings {
        workspaces: vec![workspace.into_bytes()],
        ..settings()
    };
    let mut fingerprint = Fingerprint::new(&redactor(), &settings).expect("known version");
    let (mut out, mut err) = (stdout.as_bytes(), stderr.as_bytes());
    while !out.is_empty() || !err.is_empty() {
        let (stream, rest) = if noise.below(2) == 0 {
            (Stream::Stdout, &mut out)
        } else {
            (Stream::Stderr, &mut err)
        };
        let count = usize::try_from(noise.below(40))
            .expect("small")
            .min(rest.len());
        let (chunk, later) = rest.split_at(count);
        fingerprint.push(stream, chunk);
        *rest = later;
    }
    fingerprint.finish(0)
}

#[test]
fn forty_honest_runs_agree_in_the_stable_digest_and_other_tests_differ() {
    let tests = ["test_one", "test_two", "test_three"];
    let first = honest_run(0, &tests);
    for seed in 1..40 {
        let run = honest_run(seed, &tests);
        assert_eq!(
            run.stable_output_sha256, first.stable_output_sha256,
            "run {seed}"
        );
        assert_ne!(
            run.output_sha256, first.output_sha256,
            "run {seed} differs in bytes"
        );
    }
    for other in [
        &["test_one", "test_two"][..],
        &["test_one", "test_two", "test_four"],
        &["test_two", "test_one", "test_three"],
    ] {
        assert_ne!(
            honest_run(1, other).stable_output_sha256,
            first.stable_output_sha256
        );
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "0.12s",
        "1m02s ",
        "0x7ffe0123",
        "/tmp/abc/d",
        "/home/u/project/x",
        "pid 12",
        "127.0.0.1:80",
        "\n",
        " ",
        "\t\n",
        "2026-01-31T12:34:56Z",
        "12:34:56",
        "\u{1b}[32m",
        "\u{1b}]0;t",
        "\u{7}",
        "very-secret-value",
        "-0123456789abcdef",
        "thread 'x' (1)",
        "\r\n",
        "12 passed",
    ];
    let piece = prop_oneof![
        8 => proptest::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (PIECE_BYTES - 4..PIECE_BYTES + 4).prop_map(|count| vec![b'a'; count]),
        1 => (PIECE_BYTES - 4..PIECE_BYTES + 4).prop_map(|count| vec![b' '; count]),
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_chunking_gives_the_same_digests(stdout in text(), stderr in text(), cuts in proptest::collection::vec(1..90_000_usize, 1..20)) {
        let whole = digests(&[(Stream::Stdout, &stdout), (Stream::Stderr, &stderr)]);
        let mut parts: Vec<(Stream, &[u8])> = Vec::new();
        for (stream, mut rest) in [(Stream::Stderr, stderr.as_slice()), (Stream::Stdout, stdout.as_slice())] {
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, later) = rest.split_at((*cut).min(rest.len()));
                parts.push((stream, chunk));
                rest = later;
            }
        }
        prop_assert_eq!(digests(&parts), whole);
    }

    #[test]
    fn stable_text_is_what_the_stable_digest_is_over(stdout in text()) {
        let stdout = redactor().redact(&stdout).into_owned();
        prop_assume!(stdout.len() <= STABLE_TEXT_BYTES);
        let stable = stable_text(&stdout, &settings()).expect("known");
        let mut joined = stable.clone();
        joined.push(0);
        prop_assert_eq!(digests(&[(Stream::Stdout, &stdout)]).stable_output_sha256, sha256(&joined));
    }

    #[test]
    fn bytewise_input_gives_the_digests_of_the_whole(stdout in proptest::collection::vec(any::<u8>(), 0..300)) {
        let parts: Vec<(Stream, &[u8])> = stdout.chunks(1).map(|chunk| (Stream::Stdout, chunk)).collect();
        prop_assert_eq!(digests(&parts), digests(&[(Stream::Stdout, &stdout)]));
    }
}

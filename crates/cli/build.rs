//! Says which source and compiler a binary was made of, so that a receipt can name the program that wrote it.

use std::process::Command;

#[expect(
    clippy::disallowed_methods,
    reason = "a build script asks git and rustc, and nothing supervises it"
)]
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script everything through the environment"
)]
fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let commit = ask("git", &["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let dirty = ask("git", &["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|text| !text.is_empty());
    let rustc = ask(&variable("RUSTC"), &["--version"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=LOOPEXEC_COMMIT={commit}");
    println!("cargo::rustc-env=LOOPEXEC_DIRTY={dirty}");
    println!("cargo::rustc-env=LOOPEXEC_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=LOOPEXEC_RUSTC={rustc}");
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(path) = ask("git", &["rev-parse", "--git-path", "HEAD"]) {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(path) = ask("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={path}");
    }
}

//! `docs/cli.md`: every command with its help, its exit codes and the fields of its JSON object.
//!
//! The help is the program's own; only the exit codes of a command are said here, because no parser knows them.

use std::fmt::Write as _;

use serde_json::Value;

use crate::schema;

/// Exit codes of each command beside those that every command has. The contract's table of commands.
const EXITS: &[(&str, &str)] = &[
    ("init", "0, 30"),
    ("demo", "0, 13, 30"),
    (
        "run",
        "10 to 50: the class of the halt reason; 0 with `--dry-run`, or where `--success-exit 0` says so",
    ),
    ("step", "0 when no rule ended the run; else as `run`"),
    ("status", "0, 20, 30"),
    ("check", "0, 20, 30"),
    ("explain-halt", "0, 30"),
    ("replay", "0, 13, 20, 30"),
    ("verify", "0, 13, 20, 30"),
    ("attest", "0, 13, 30"),
    ("report", "0, 30"),
    ("runs", "0, 20, 30"),
    ("ack", "0, 20, 30"),
    ("schema", "0"),
    ("completions", "0"),
    ("version", "0"),
];

/// Asks the program for what it prints.
type Ask<'a> = &'a dyn Fn(&[&str]) -> Result<String, String>;

/// Writes the page.
///
/// # Errors
/// When the program cannot be asked, or a command has no exit codes here.
pub(crate) fn command_line(ask: Ask<'_>, envelope: &Value) -> Result<String, String> {
    let top = ask(&["--help"])?;
    let names = commands(&top);
    let mut text = String::from(
        "# Command line\n\nGenerated from the program by `cargo xtask docs`; do not edit.\n\n\
         Every command may also end with 2 (the command line could not be parsed), 40 (`cancelled`) and 50 (a defect, or a\n\
         disk that does not take the record). The classes are in [SPEC.md](../SPEC.md), section 2.\n\n## All commands\n\n",
    );
    let _ = writeln!(text, "```text\n{}\n```\n", top.trim_end());
    for name in &names {
        let exits = EXITS
            .iter()
            .find(|(command, _)| command == name)
            .map(|(_, exits)| *exits)
            .ok_or_else(|| {
                format!("the command {name} has no exit codes in xtask/src/reference.rs")
            })?;
        let _ = writeln!(text, "## `loopexec {name}`\n\nExits: {exits}.\n");
        help(ask, &[name.as_str()], &mut text)?;
    }
    for (stale, _) in EXITS {
        if !names.iter().any(|name| name == stale) {
            return Err(format!(
                "xtask/src/reference.rs has exit codes for {stale}, which is no command"
            ));
        }
    }
    text.push_str(&json(envelope));
    Ok(format!("{}\n", text.trim_end()))
}

/// The help of a command and of the commands below it.
fn help(ask: Ask<'_>, words: &[&str], text: &mut String) -> Result<(), String> {
    let mut asked = words.to_vec();
    asked.push("--help");
    let printed = ask(&asked)?;
    let _ = writeln!(text, "```text\n{}\n```\n", trimmed(&printed));
    for below in commands(&printed) {
        let _ = writeln!(text, "### `loopexec {} {below}`\n", words.join(" "));
        let mut words = words.to_vec();
        words.push(&below);
        help(ask, &words, text)?;
    }
    Ok(())
}

/// Without blanks at the ends of lines and of the text.
fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The commands that a help text lists, without `help` itself.
fn commands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| line.trim() != "Commands:")
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn json(envelope: &Value) -> String {
    let mut text = String::from(
        "## JSON\n\nWith `--json` a command prints exactly one object on one line. What is null, empty text or an empty list is left\nout, except `errors`.\n\n",
    );
    text.push_str(&schema::field_table(envelope));
    text.push_str("\n### Types of the JSON fields\n\n");
    if let Some(definitions) = envelope.get("$defs").and_then(Value::as_object) {
        text.push_str(&schema::type_entries(definitions, &[]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str =
        "A tool.\n\nCommands:\n  run   Run it\n        and on\n  help  Print\n\nOptions:\n  -h\n";

    #[test]
    fn commands_are_read_from_the_help_without_wrapped_lines() {
        assert_eq!(commands(TOP), ["run"]);
        assert!(commands("Options:\n  -h\n").is_empty());
    }

    #[test]
    fn a_command_without_exit_codes_is_an_error() {
        let ask = |_: &[&str]| Ok("Commands:\n  invented  X\n".to_owned());
        let error = command_line(&ask, &Value::Null);
        assert!(error.is_err_and(|message| message.contains("invented")));
    }
}

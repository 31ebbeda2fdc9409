//! The programs that a command string names: where they are and what they are.
//!
//! Must not run anything; a word that cannot be resolved is recorded as such.

use std::{
    ffi::{OsStr, OsString},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use loopexec_core::{digest::Digest, event::ToolPin};
use sha2::{Digest as _, Sha256};

/// A larger program is named but not hashed; the largest compilers are smaller.
const HASHED_BYTES_MAX: u64 = 512 << 20;
/// Programs that are looked at in one command string.
const TOOLS_MAX: usize = 16;

/// The programs of a command string: the first word of each simple command, looked up in `PATH`.
#[must_use]
pub fn resolve(
    command: &str,
    workdir: &Path,
    environment: &[(OsString, OsString)],
) -> Vec<ToolPin> {
    let path = environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"), |(_, value)| {
            value
        });
    let mut names: Vec<String> = Vec::new();
    for words in simple_commands(command) {
        let program = words
            .into_iter()
            .find(|word| !assignment(word) && !keyword(word));
        if let Some(word) = program
            && !names.contains(&word)
            && names.len() < TOOLS_MAX
        {
            names.push(word);
        }
    }
    names
        .into_iter()
        .map(|name| pin(&name, workdir, path))
        .collect()
}

/// The words of each simple command, as far as they can be told without a shell: quoted text is part of its word, and
/// what a substitution would run is not looked into.
fn simple_commands(command: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in command.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), other) => word.get_or_insert_default().push(other),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | ';' | '&' | '(' | ')' | '\n') => {
                end_word(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            (None, space) if space.is_whitespace() => end_word(&mut commands, &mut word),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    end_word(&mut commands, &mut word);
    commands
}

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(last), Some(word)) = (commands.last_mut(), word.take()) {
        last.push(word);
    }
}

/// `NAME=value` before a command.
fn assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn keyword(word: &str) -> bool {
    [
        "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "!", "{", "}",
        "exec", "time",
    ]
    .contains(&word)
}

fn pin(name: &str, workdir: &Path, path: &OsStr) -> ToolPin {
    let found = if name.contains('/') {
        Some(workdir.join(name)).filter(executable)
    } else {
        std::env::split_paths(path)
            .map(|directory| workdir.join(directory).join(name))
            .find(executable)
    };
    ToolPin {
        name: name.to_owned(),
        sha256: found.as_deref().and_then(digest),
        path: found.map(|file| file.to_string_lossy().into_owned()),
    }
}

fn executable(file: &PathBuf) -> bool {
    fs_err::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn digest(file: &Path) -> Option<Digest> {
    let mut source = loopexec_os::durable::open_regular(file).ok()?;
    if source.metadata().ok()?.len() > HASHED_BYTES_MAX {
        return None;
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match source.read(&mut buffer).ok()? {
            0 => return Some(Digest(hash.finalize().into())),
            read => hash.update(buffer.get(..read)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_simple_command_names_its_program() {
        let environment = [(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))];
        let tools = resolve(
            "FOO=1 sh -c 'x' && ! no-such-tool | cat; sh",
            Path::new("/"),
            &environment,
        );
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["sh", "no-such-tool", "cat"]);
        assert!(tools[0].path.is_some() && tools[0].sha256.is_some());
        assert!(tools[1].path.is_none() && tools[1].sha256.is_none());
    }

    #[test]
    fn quoted_text_is_part_of_its_word() {
        let tools = resolve(
            "test \"$(wc -l < n)\" -ge 3 && 'sh' -c 'a; b'",
            Path::new("/"),
            &[],
        );
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["test", "sh"]);
    }
}

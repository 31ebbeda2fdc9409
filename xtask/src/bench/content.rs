//! Saving the content of a workspace with ten thousand files before the first work, against `git add` and `git write-tree`.

use std::path::Path;

use super::{Context, Figure, clear, millis, program};
use crate::support::{self, Dice};

const FILES: usize = 10_000;
/// Share of the peer's time.
const GOAL: f64 = 0.3;
/// Rounds: each writes the whole content twice.
const ROUNDS: usize = 5;

/// Measures.
pub(super) fn run(context: &Context) -> Result<Vec<Figure>, String> {
    let root = support::scratch("snapshot")?;
    let bytes_each = if context.short { 2_000 } else { 20_000 };
    let rounds = if context.short { 1 } else { ROUNDS };
    let (mut ours, mut empty, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        clear(root.path())?;
        empty.push(saved(context, root.path())?);
        clear(root.path())?;
        let workdir = root.path().join("workspace");
        fill(&workdir, bytes_each)?;
        ours.push(saved(context, root.path())?);
        let mut git = support::command("sh");
        git.args([
            "-c",
            "git init -q . && git add -A . && git write-tree > /dev/null",
        ])
        .current_dir(&workdir)
        .env("HOME", root.path().join("home"));
        theirs.push(millis(&mut git, 0)?);
    }
    let net: Vec<f64> = ours
        .iter()
        .zip(&empty)
        .map(|(ours, empty)| ours - empty)
        .collect();
    let ratio = super::ratios(&net, &theirs);
    Ok(vec![
        Figure::new(
            format!("snapshot: {FILES} files of {bytes_each} bytes, one run"),
            "ms",
            ours,
        ),
        Figure::new("snapshot: the same run in an empty workspace", "ms", empty),
        Figure::new("snapshot: git add, git write-tree", "ms", theirs),
        Figure::new(
            "snapshot: first and last content together, ratio to git",
            "x",
            ratio,
        )
        .reported(GOAL),
    ])
}

/// One run that changes nothing: its content is saved at the beginning and looked at again at the end.
fn saved(context: &Context, root: &Path) -> Result<f64, String> {
    let mut command = program(&context.binary, root)?;
    command.args([
        "run", "--json", "--quiet", "--exec", "true", "--check", "true", "--once",
    ]);
    millis(&mut command, 10)
}

/// Files of bytes that do not compress, a hundred in a directory.
fn fill(workdir: &Path, bytes_each: usize) -> Result<(), String> {
    let mut dice = Dice::new(11);
    for number in 0..FILES {
        let directory = workdir.join(format!("d{}", number / 100));
        fs_err::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let mut bytes = Vec::with_capacity(bytes_each);
        while bytes.len() < bytes_each {
            bytes.extend_from_slice(&dice.next().to_le_bytes());
        }
        fs_err::write(directory.join(format!("f{number}")), bytes)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

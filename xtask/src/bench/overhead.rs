//! Overhead of an iteration: work `true`, check `false`, two hundred times, against a shell loop that runs the same two
//! `sh -c`; in memory, and on a disk where the forcing of the receipt counts.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{Context, Figure, ROUNDS, clear, elapsed, millis, program};
use crate::support;

const ITERATIONS: u32 = 200;
/// Exit class of the cap.
const CAPPED: i32 = 12;
/// Forced appends whose median is the price of one.
const FORCED: usize = 50;
/// Bytes of a forced append: a usual record.
const RECORD: &[u8] = &[b'x'; 300];

/// Measures.
pub(super) fn run(context: &Context) -> Result<Vec<Figure>, String> {
    let memory = support::scratch("overhead")?;
    let disk = disk()?;
    let (mut ours, mut shell, mut durable, mut price) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        shell.push(shell_loop()?);
        ours.push(governor(context, memory.path())?);
        durable.push(governor(context, disk.path())?);
        price.push(forced_append(disk.path())?);
    }
    let inside = files_left(&memory.path().join("workspace"))?;
    let outside = files_left(&memory.path().join("state"))?;
    let above: Vec<f64> = durable
        .iter()
        .zip(&ours)
        .map(|(durable, ours)| (durable - ours) / f64::from(ITERATIONS))
        .collect();
    let in_syncs = super::ratios(&above, &price);
    Ok(vec![
        Figure::new("overhead: shell loop, 200 iterations", "ms", shell.clone()),
        Figure::new(
            "overhead: loopexec in memory, 200 iterations",
            "ms",
            ours.clone(),
        ),
        Figure::new(
            "overhead: ratio to the shell loop",
            "x",
            super::ratios(&ours, &shell),
        )
        .gated_in_full(1.15, context),
        Figure::new("overhead: loopexec on disk, 200 iterations", "ms", durable),
        Figure::new("overhead: one fdatasync of that disk", "ms", price),
        Figure::new(
            "overhead: disk above memory an iteration, in fdatasyncs",
            "x",
            in_syncs,
        )
        .gated_in_full(2.0, context),
        Figure::new(
            "files left in the workspace by 200 iterations",
            "files",
            vec![inside],
        )
        .gated(12.0),
        Figure::new(
            "files of the second copies outside it",
            "files",
            vec![outside],
        ),
    ])
}

fn governor(context: &Context, root: &Path) -> Result<f64, String> {
    clear(root)?;
    let mut command = program(&context.binary, root)?;
    let cap = ITERATIONS.to_string();
    command.args([
        "run", "--json", "--quiet", "--exec", "true", "--check", "false",
    ]);
    command.args(["--max-iterations", &cap]);
    millis(&mut command, CAPPED)
}

fn shell_loop() -> Result<f64, String> {
    let script =
        format!("i=0; while [ $i -lt {ITERATIONS} ]; do sh -c true; sh -c false; i=$((i+1)); done");
    let mut command = support::command("sh");
    command.args(["-c", &script]);
    millis(&mut command, 0)
}

/// A directory on the disk that holds the build.
fn disk() -> Result<tempfile::TempDir, String> {
    let target = support::variable("CARGO_TARGET_DIR").map_or_else(
        || support::root().map(|root| root.join("target")),
        |target| Ok(PathBuf::from(target)),
    )?;
    tempfile::Builder::new()
        .prefix("loopexec-overhead-")
        .tempdir_in(target)
        .map_err(|error| error.to_string())
}

/// What one forced append costs there, in milliseconds.
fn forced_append(directory: &Path) -> Result<f64, String> {
    let path = directory.join("forced");
    let mut file = fs_err::File::create(path).map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for _ in 0..FORCED {
        let (millis, ()) = elapsed(|| {
            file.write_all(RECORD)
                .and_then(|()| file.sync_data())
                .map_err(|error| error.to_string())
        })?;
        values.push(millis);
    }
    Ok(super::Spread::of(values).median())
}

/// Files and links below a directory.
fn files_left(directory: &Path) -> Result<f64, String> {
    let mut count = 0_u32;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs_err::read_dir(directory).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry
                .file_type()
                .map_err(|error| error.to_string())?
                .is_dir()
            {
                open.push(entry.path());
            } else {
                count += 1;
            }
        }
    }
    Ok(f64::from(count))
}

//! Memory of the governor while a check prints gigabytes.

use super::{Context, DEADLINE, Figure, clear, program};
use crate::support;

/// What the governor may hold, in MiB.
const PEAK_MIB: f64 = 20.0;

/// Measures.
pub(super) fn run(context: &Context) -> Result<Vec<Figure>, String> {
    let root = support::scratch("memory")?;
    let gigabytes = if context.short { 1_u32 } else { 10 };
    let rounds = if context.short { 1 } else { super::ROUNDS };
    let (mut peaks, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        clear(root.path())?;
        // The governor's own high-water mark, read by the check once it has printed everything.
        let check = format!(
            "pid=$(tr -dc '0-9,' < .loopexec/lock | cut -d, -f1); head -c {gigabytes}G /dev/zero; grep VmHWM /proc/$pid/status > peak; false"
        );
        let mut command = program(&context.binary, root.path())?;
        command.args([
            "run", "--json", "--quiet", "--exec", "true", "--check", &check, "--once",
        ]);
        let outcome = support::run(&mut command, DEADLINE)?;
        if outcome.code != Some(12) {
            return Err(format!(
                "the run ended with {:?}: {}",
                outcome.code,
                outcome.text()
            ));
        }
        let text = fs_err::read_to_string(root.path().join("workspace/peak"))
            .map_err(|error| error.to_string())?;
        let kib: f64 = text
            .split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse().ok())
            .ok_or_else(|| format!("no high-water mark in {text:?}"))?;
        peaks.push(kib / 1024.0);
        rates.push(f64::from(gigabytes) * 1024.0 / outcome.took.as_secs_f64());
    }
    Ok(vec![
        Figure::new(
            format!("memory: peak while {gigabytes} GiB are printed"),
            "MiB",
            peaks,
        )
        .gated(PEAK_MIB),
        Figure::new("memory: output taken in", "MiB/s", rates),
    ])
}

//! `runs`: the recorded runs of a workspace as a list, and what can be done with one.

use std::fmt::Write as _;

use loopexec_engine::{
    export::{ExportConfig, export as pack},
    failure::Failure,
    housekeeping::{Listed, PruneConfig, Usage, list as list_runs, prune as prune_runs, usage},
    layout::Layout,
    undo::{UndoConfig, undo as bring_back},
};
use loopexec_os::clock;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, replay::timestamp, schema};
use crate::{
    args::{Global, RunId, Runs, RunsAction, SchemaName},
    duration::Span,
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// What `runs` found or did.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct RunsBlock {
    /// `list`: the runs, by start time, then id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) list: Option<Vec<Listed>>,
    /// `du`: what each takes, by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Vec<Usage>>,
    /// `prune`: what went, what stays and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pruned: Option<loopexec_engine::housekeeping::Pruned>,
    /// `undo`: what was brought back, and where what was there is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) undone: Option<loopexec_engine::undo::Undone>,
    /// `export`: the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) export: Option<ExportBlock>,
}

/// An exported run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportBlock {
    /// The file.
    pub(crate) file: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// Its members.
    pub(crate) members: Vec<String>,
    /// Labels of the contents in it.
    pub(crate) contents: Vec<String>,
    /// Fields that are withheld.
    pub(crate) withheld: u64,
}

/// Does what is asked.
pub(super) fn runs(
    global: &Global,
    arguments: &Runs,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let layout = invocation.layout(global.workdir.as_deref())?;
    match &arguments.action {
        RunsAction::List => list(&layout),
        RunsAction::Undo(run) => undo(&layout, run, invocation),
        RunsAction::Export { run, file, redact } => {
            let schemas = SchemaName::ALL
                .iter()
                .map(|name| (name.text().to_owned(), schema::text_of(*name).into_bytes()))
                .collect();
            export(&ExportConfig {
                layout: &layout,
                run_id: run,
                file,
                redact: *redact,
                schemas,
                search_path: search_path(invocation),
                excludes_file: invocation.excludes_file(),
            })
        }
        RunsAction::Du => Ok(du(&layout)),
        RunsAction::Prune { keep, older } => prune(&layout, *keep, *older, invocation),
    }
}

fn search_path(invocation: &Invocation) -> Option<&std::ffi::OsStr> {
    invocation
        .variable("PATH")
        .map(std::ffi::OsString::as_os_str)
}

fn answer(mut envelope: Envelope, text: &str, block: RunsBlock) -> Answer {
    let text = super::run::lines(&envelope) + text;
    envelope.block.runs = Some(Box::new(block));
    Answer::new(envelope, text)
}

fn list(layout: &Layout) -> Result<Answer, CliError> {
    let runs = list_runs(layout)?;
    let mut text = String::new();
    for run in &runs {
        let started = run.started_ts.map_or_else(
            || "-".to_owned(),
            |seconds| timestamp(seconds.saturating_mul(1000)),
        );
        let signed = if run.signed { "signed" } else { "unsigned" };
        let acknowledged = match run.acknowledged {
            Some(true) => "acknowledged",
            Some(false) if run.iterations > 0 => "unacknowledged",
            Some(false) | None => "-",
        };
        let _ = writeln!(
            text,
            "  {started:<20} {:<24} {:<28} {:>4} iterations {:>9}  {signed:<8} {acknowledged}",
            run.run_id,
            run.halt_reason,
            run.iterations,
            size(run.bytes)
        );
    }
    if runs.is_empty() {
        let _ = writeln!(
            text,
            "  no run is recorded in {}",
            layout.workdir().display()
        );
    }
    let block = RunsBlock {
        list: Some(runs),
        ..RunsBlock::default()
    };
    Ok(answer(Envelope::new("ok"), &text, block))
}

/// Bytes in the largest unit that they fill.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut rest = 0;
    let mut unit = UNITS.iter();
    let mut name = unit.next().unwrap_or(&"B");
    for next in unit {
        if value < 1024 {
            break;
        }
        rest = value % 1024;
        value /= 1024;
        name = next;
    }
    if *name == "B" {
        format!("{value} B")
    } else {
        format!("{value}.{} {name}", rest * 10 / 1024)
    }
}

fn undo(layout: &Layout, run: &RunId, invocation: &Invocation) -> Result<Answer, CliError> {
    let undone = bring_back(&UndoConfig {
        layout,
        run_id: run.run_id.as_deref(),
        search_path: search_path(invocation),
        excludes_file: invocation.excludes_file(),
    })?;
    let mut envelope = Envelope::new("ok");
    envelope.run_id = Some(undone.run_id.clone());
    let mut text = format!(
        "the workspace is as it was before the run: {} files written, {} removed, {} modes changed{}\n",
        undone.written,
        undone.removed,
        undone.modes,
        if undone.index_changed {
            ", the git index too"
        } else {
            ""
        }
    );
    let _ = match &undone.kept_reference {
        Some(reference) => writeln!(text, "kept: what was there is at {reference}"),
        None => writeln!(
            text,
            "kept: what was there is {} in {}",
            undone.kept,
            layout.run_directory(&undone.run_id).join("git").display()
        ),
    };
    for path in &undone.left {
        let _ = writeln!(text, "left: {path} (ignored files are in it)");
    }
    for moved in &undone.displaced {
        let _ = writeln!(text, "moved: {moved}");
    }
    let block = RunsBlock {
        undone: Some(undone),
        ..RunsBlock::default()
    };
    Ok(answer(envelope, &text, block))
}

fn export(config: &ExportConfig<'_>) -> Result<Answer, CliError> {
    let exported = pack(config)?;
    let mut envelope = Envelope::new("ok");
    envelope.run_id = Some(exported.run_id.clone());
    let file = exported.file.display().to_string();
    let mut text = format!(
        "written: {file} ({}, {} members)\n",
        size(exported.bytes),
        exported.members.len()
    );
    if config.redact {
        let _ = writeln!(
            text,
            "withheld: {} fields, each by its digest; the content and the signatures are left out",
            exported.withheld
        );
        let _ = writeln!(text, "verify: loopexec verify {file}");
    } else {
        let contents = if exported.contents.is_empty() {
            "none was kept".to_owned()
        } else {
            exported.contents.join(", ")
        };
        let _ = writeln!(text, "contents: {contents}");
        let _ = writeln!(
            text,
            "verify: loopexec verify {file}, then loopexec replay --from {file}"
        );
    }
    let block = RunsBlock {
        export: Some(ExportBlock {
            file,
            bytes: exported.bytes,
            members: exported.members,
            contents: exported.contents,
            withheld: exported.withheld,
        }),
        ..RunsBlock::default()
    };
    Ok(answer(envelope, &text, block))
}

fn du(layout: &Layout) -> Answer {
    let all = usage(layout);
    let mut text = String::new();
    let mut total = 0_u64;
    for usage in &all {
        total = total.saturating_add(usage.total());
        let _ = writeln!(
            text,
            "  {:>9}  {:<24} receipt {}, private {}, copy outside {}",
            size(usage.total()),
            usage.run_id,
            size(usage.receipt_bytes),
            size(usage.private_bytes),
            size(usage.outside_bytes)
        );
    }
    let _ = writeln!(text, "  {:>9}  all runs", size(total));
    let block = RunsBlock {
        usage: Some(all),
        ..RunsBlock::default()
    };
    answer(Envelope::new("ok"), &text, block)
}

fn prune(
    layout: &Layout,
    keep: Option<i64>,
    older: Option<Span>,
    invocation: &Invocation,
) -> Result<Answer, CliError> {
    let negative = |flag: &str, value: String| {
        Failure::invariant(format!(
            "--{flag} {value} can never be right: it cannot be negative"
        ))
        .because("limit_invalid")
    };
    let keep = keep
        .map(|keep| usize::try_from(keep).map_err(|_| negative("keep", keep.to_string())))
        .transpose()?;
    let older_s = older
        .map(|span| match span.millis {
            millis if millis < 0 => Err(negative("older", format!("{millis} ms"))),
            millis => Ok(millis.div_euclid(1000)),
        })
        .transpose()?;
    let pruned = prune_runs(&PruneConfig {
        layout,
        keep,
        older_s,
        now: clock::wall_millis().div_euclid(1000),
        search_path: search_path(invocation),
    })?;
    let mut text = String::new();
    for run in &pruned.removed {
        let _ = writeln!(text, "  removed {run}");
    }
    for kept in &pruned.kept {
        let _ = writeln!(text, "  kept    {}: {}", kept.run_id, kept.why);
    }
    let _ = writeln!(
        text,
        "removed: {} runs, {}",
        pruned.removed.len(),
        size(pruned.bytes)
    );
    let block = RunsBlock {
        pruned: Some(pruned),
        ..RunsBlock::default()
    };
    Ok(answer(Envelope::new("ok"), &text, block))
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_is_shown_in_the_largest_unit_that_it_fills() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1023.9 KiB"),
            (1_048_576, "1.0 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}

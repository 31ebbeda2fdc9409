//! `run --dry-run`: what would run, in which order, how often and for how long at most. Runs nothing.

use std::fmt::Write as _;

use loopexec_core::{policy::Policy, units::RunMillis};
use loopexec_engine::run::RunConfig;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::Answer;
use crate::{envelope::Envelope, render::elapsed};

/// What a run would do.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Plan {
    /// The commands of t0, in order.
    pub(crate) before: Vec<PlannedCommand>,
    /// The commands of an iteration, in order.
    pub(crate) iteration: Vec<PlannedCommand>,
    /// Iterations at most.
    pub(crate) max_iterations: u32,
    /// Times the check runs in an iteration, at most.
    pub(crate) checks_an_iteration: u32,
    /// Longest run in milliseconds; absent when no limit bounds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst_case_ms: Option<u64>,
    /// Most money; absent when nothing meters it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst_case_microusd: Option<u64>,
    /// Guards that are on.
    pub(crate) guards_on: Vec<&'static str>,
    /// Guards that are off.
    pub(crate) guards_off: Vec<&'static str>,
}

/// A command and what it is for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PlannedCommand {
    /// `exec`, `integrity`, `check`, `failures`.
    pub(crate) phase: &'static str,
    /// The command string.
    pub(crate) command: String,
}

/// Describes the run.
pub(super) fn describe(config: &RunConfig) -> Answer {
    let plan = plan(config);
    let mut text = "status: ok\n".to_owned();
    for (title, commands) in [
        ("before the first iteration", &plan.before),
        ("each iteration", &plan.iteration),
    ] {
        if commands.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}:");
        for (command, number) in commands.iter().zip(1..) {
            let _ = writeln!(text, "  {number}. {:<9} {}", command.phase, command.command);
        }
    }
    let worst = plan
        .worst_case_ms
        .map_or_else(|| "without limit".to_owned(), elapsed);
    let _ = writeln!(text, "iterations: at most {}", plan.max_iterations);
    let _ = writeln!(
        text,
        "checks an iteration: at most {}",
        plan.checks_an_iteration
    );
    let _ = writeln!(text, "worst-case time: {worst}");
    let _ = writeln!(text, "worst-case money: not metered");
    let _ = writeln!(text, "guards on: {}", plan.guards_on.join(", "));
    let off = if plan.guards_off.is_empty() {
        "none of this version".to_owned()
    } else {
        plan.guards_off.join(", ")
    };
    let _ = writeln!(text, "guards off: {off}");
    let mut envelope = Envelope::new("ok");
    envelope.run_id = Some(config.run_id.clone());
    envelope.block.plan = Some(plan);
    Answer::new(envelope, text)
}

fn plan(config: &RunConfig) -> Plan {
    let commands = &config.commands;
    let planned = |phase, command: Option<&String>| {
        command.map(|command| PlannedCommand {
            phase,
            command: command.clone(),
        })
    };
    let check = || planned("check", Some(&commands.check));
    let integrity = || planned("integrity", commands.integrity.as_ref());
    let baseline = config.policy.baseline;
    let before: Vec<PlannedCommand> = [
        integrity(),
        check().filter(|_| baseline),
        integrity().filter(|_| baseline),
    ]
    .into_iter()
    .flatten()
    .collect();
    let iteration: Vec<PlannedCommand> = [
        planned("exec", commands.exec.as_ref()),
        integrity(),
        check(),
        integrity(),
        planned("failures", commands.failures.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let guarded = commands.integrity.is_some();
    Plan {
        worst_case_ms: worst_case(&config.policy, before.len(), iteration.len()),
        worst_case_microusd: None,
        before,
        iteration,
        max_iterations: config.policy.max_iterations,
        checks_an_iteration: 1,
        guards_on: if guarded {
            vec!["receipt", "integrity"]
        } else {
            vec!["receipt"]
        },
        guards_off: if guarded {
            vec![]
        } else {
            vec!["integrity (--integrity-cmd)"]
        },
    }
}

/// The tighter of the total limit and the sum of the limits of all commands, each with its grace.
fn worst_case(policy: &Policy, before: usize, iteration: usize) -> Option<u64> {
    let commands = u64::try_from(iteration)
        .unwrap_or(u64::MAX)
        .saturating_mul(policy.max_iterations.into())
        .saturating_add(u64::try_from(before).unwrap_or(u64::MAX));
    let grace = policy.terminate_grace_ms.0;
    let by_command = policy
        .command_timeout_ms
        .map(|RunMillis(one)| one.saturating_add(grace).saturating_mul(commands));
    let total = policy
        .timeout_ms
        .map(|RunMillis(total)| total.saturating_add(grace));
    match (by_command, total) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

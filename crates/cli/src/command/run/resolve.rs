//! From the flags of `run` and `step` to what they mean; a recorded run supplies what was left out.
//!
//! Numbers outside their domain are refused here, never replaced.

use loopexec_core::{
    event::{Pin, PinSource, Pins},
    policy::{Commands, Mode, Policy, RunKind},
    units::{MicroUsd, MoneyError, RunMillis},
};
use loopexec_engine::{
    failure::Failure,
    inside,
    layout::{Layout, valid_run_id},
    recorded,
    run::{Extent, ResumeOptions, RunConfig, Start},
    runs,
};

use crate::{
    args::{Global, Pins as PinFlags, Run},
    duration::Span,
    error::CliError,
    identity::identity,
    invocation::Invocation,
    render::elapsed,
};

/// The id of a run that was given none.
const DEFAULT_RUN_ID: &str = "local";

/// Resolves the flags.
pub(super) fn resolve(
    global: &Global,
    arguments: &Run,
    invocation: &Invocation,
    extent: Extent,
) -> Result<RunConfig, CliError> {
    let given = policy(arguments, Policy::default())?;
    let pins = pins(&arguments.pins)?;
    let cost_declared = arguments
        .cost_usd
        .as_deref()
        .map(|text| money("cost-usd", text))
        .transpose()?;
    success_exit(arguments)?;
    let layout = invocation.layout(global.workdir.as_deref())?;
    let run_id = run_id(arguments, &layout, extent)?;
    let (start, policy, commands) = if continues(arguments, &layout, &run_id, extent) {
        if arguments.raise {
            inside::refuse(&layout, "--raise", invocation.inside_run().as_deref())?;
        }
        continuation(arguments, &layout, &run_id)?
    } else {
        given
            .validate()
            .map_err(|error| Failure::invariant(error.to_string()).because("limit_invalid"))?;
        (Start::Fresh, given, commands(arguments, None)?)
    };
    if policy.budget_microusd.is_some() {
        return Err(Failure::workspace(
            "--budget-usd needs a meter: a workflow's, a gateway, or an agent preset's transcript",
        )
        .because("budget_without_meter")
        .hint("leave --budget-usd out; --cost-usd records a declared cost")
        .into());
    }
    Ok(RunConfig {
        workdir: layout.workdir().to_owned(),
        state_home: invocation.state_home(),
        run_id,
        start,
        extent,
        policy,
        commands,
        pins,
        cost_declared,
        context_files: arguments.context_file.clone(),
        environment: invocation.environment.clone(),
        excludes_file: invocation.excludes_file(),
        identity: identity(),
        signals: invocation.signals.clone(),
    })
}

/// The run's id: as given; for a resume or a step the latest; else `local`.
fn run_id(arguments: &Run, layout: &Layout, extent: Extent) -> Result<String, CliError> {
    let continuing = arguments.resume || extent == Extent::OneIteration;
    let id = match (&arguments.run_id, continuing) {
        (Some(id), _) => id.clone(),
        (None, true) => runs::latest(layout).unwrap_or_else(|| DEFAULT_RUN_ID.to_owned()),
        (None, false) => DEFAULT_RUN_ID.to_owned(),
    };
    if valid_run_id(&id) {
        return Ok(id);
    }
    Err(Failure::workspace(format!(
        "{id:?} cannot name a run: use 1 to 64 letters, digits, '.', '_', '-', beginning with a letter or digit"
    ))
    .because("run_id_invalid")
    .into())
}

/// Whether this goes on with a recorded run: `--resume`, or a step of a run that has not ended.
fn continues(arguments: &Run, layout: &Layout, run_id: &str, extent: Extent) -> bool {
    if arguments.resume {
        return true;
    }
    let open = || {
        recorded::load(layout, Some(run_id)).is_ok_and(|run| {
            run.state().is_some_and(|state| {
                state
                    .halt
                    .as_ref()
                    .is_none_or(loopexec_core::event::Halt::continuable)
            })
        })
    };
    extent == Extent::OneIteration && layout.receipt(run_id).is_file() && open()
}

/// Takes what was left out from the recorded run, and notes whether the whole is still its policy.
fn continuation(
    arguments: &Run,
    layout: &Layout,
    run_id: &str,
) -> Result<(Start, Policy, Commands), CliError> {
    if arguments.raise && arguments.reviewer.is_none() {
        return Err(Failure::workspace(
            "--raise needs --reviewer NAME: a raised limit is a person's decision",
        )
        .because("reviewer_missing")
        .into());
    }
    let Ok(run) = recorded::load(layout, Some(run_id)) else {
        // The engine says why there is nothing to go on with, after it has tried to repair it.
        return Ok((
            Start::Resume(ResumeOptions::default()),
            Policy::default(),
            commands(arguments, Some(&Commands::default()))?,
        ));
    };
    let recorded = run.state().map(|state| state.run.clone());
    let Some(recorded) = recorded else {
        return Ok((
            Start::Resume(ResumeOptions::default()),
            Policy::default(),
            Commands::default(),
        ));
    };
    let mut options = ResumeOptions::default();
    let mut policy = policy(arguments, recorded.policy.clone())?;
    if arguments.raise {
        options.reviewer.clone_from(&arguments.reviewer);
        let in_force = run.state().map_or(&recorded.policy, |state| &state.policy);
        (options.max_iterations, options.timeout_ms) = raised(arguments, &policy, in_force)?;
        policy.max_iterations = recorded.policy.max_iterations;
        policy.timeout_ms = recorded.policy.timeout_ms;
    }
    policy
        .validate()
        .map_err(|error| Failure::invariant(error.to_string()).because("limit_invalid"))?;
    let commands = commands(arguments, Some(&recorded.commands))?;
    options.policy_hash = Some(policy.hash(Mode::CheckFixpoint, RunKind::Legacy, &commands));
    Ok((Start::Resume(options), policy, commands))
}

/// The limits that `--raise` raises: those given that are not in force already. One that is lower is refused here,
/// before anything is recorded.
fn raised(
    arguments: &Run,
    wanted: &Policy,
    in_force: &Policy,
) -> Result<(Option<u32>, Option<RunMillis>), CliError> {
    let cap = Some(wanted.max_iterations)
        .filter(|cap| arguments.max_iterations.is_some() && *cap != in_force.max_iterations);
    if let Some(lower) = cap.filter(|cap| *cap < in_force.max_iterations) {
        return Err(no_raise(
            &format!("--max-iterations {lower}"),
            &format!("the cap in force is {}", in_force.max_iterations),
        ));
    }
    let timeout = wanted
        .timeout_ms
        .filter(|_| arguments.timeout.is_some() && wanted.timeout_ms != in_force.timeout_ms);
    let Some(wanted_ms) = timeout else {
        return Ok((cap, None));
    };
    let before = match in_force.timeout_ms {
        Some(before) if before < wanted_ms => return Ok((cap, timeout)),
        Some(before) => format!("the limit in force is {}", elapsed(before.0)),
        None => "the run has no such limit".to_owned(),
    };
    Err(no_raise(
        &format!("--timeout of {}", elapsed(wanted_ms.0)),
        &before,
    ))
}

fn no_raise(what: &str, before: &str) -> CliError {
    Failure::invariant(format!("{what} raises nothing: {before}"))
        .because("limit_invalid")
        .hint("--raise takes higher limits alone; leave a flag out to keep the recorded limit")
        .into()
}

/// The command strings: as given, else as recorded.
fn commands(arguments: &Run, recorded: Option<&Commands>) -> Result<Commands, CliError> {
    let given = |flag: &Option<String>| flag.clone().filter(|text| !text.trim().is_empty());
    let base = recorded.cloned().unwrap_or_default();
    let check = given(&arguments.check).unwrap_or(base.check);
    if check.is_empty() && recorded.is_none() {
        return Err(
            Failure::workspace("a loop needs an external check: no check, no loop")
                .because("check_missing")
                .hint("name the command whose exit code is the verdict: --check 'cargo test'")
                .into(),
        );
    }
    Ok(Commands {
        exec: given(&arguments.exec).or(base.exec),
        check,
        failures: given(&arguments.failures_cmd).or(base.failures),
        integrity: given(&arguments.integrity_cmd).or(base.integrity),
    })
}

/// The limits: as given, else those of `base`.
fn policy(arguments: &Run, base: Policy) -> Result<Policy, CliError> {
    let mut policy = base;
    if let Some(cap) = arguments.max_iterations {
        policy.max_iterations = whole("max-iterations", cap, 0, i64::from(u32::MAX))?;
    }
    if arguments.once {
        policy.max_iterations = 1;
    }
    if let Some(k) = arguments.no_progress_k {
        policy.no_progress_k = whole("no-progress-k", k, 0, i64::from(u32::MAX))?;
    }
    if let Some(every) = arguments.comprehension_every {
        policy.comprehension_every = whole("comprehension-every", every, 0, i64::from(u32::MAX))?;
    }
    for (name, flag, slot) in [
        ("timeout", arguments.timeout, &mut policy.timeout_ms),
        (
            "command-timeout",
            arguments.command_timeout,
            &mut policy.command_timeout_ms,
        ),
        (
            "idle-timeout",
            arguments.idle_timeout,
            &mut policy.idle_timeout_ms,
        ),
    ] {
        if let Some(span) = flag {
            *slot = Some(millis(name, span)?);
        }
    }
    if let Some(span) = arguments.terminate_grace {
        policy.terminate_grace_ms = millis("terminate-grace", span)?;
    }
    if let Some(code) = arguments.success_exit_code {
        policy.success_exit_code = whole::<u8>("success-exit-code", code, 0, 255)?.into();
    }
    if let Some(text) = &arguments.budget_usd {
        policy.budget_microusd = Some(money("budget-usd", text)?);
    }
    policy.require_red |= arguments.require_red;
    policy.baseline |= arguments.baseline || arguments.require_red;
    if arguments.max_iterations == Some(0) || policy.no_progress_k == 0 {
        policy
            .validate()
            .map_err(|error| Failure::invariant(error.to_string()).because("limit_invalid"))?;
    }
    Ok(policy)
}

/// `--success-exit` as an exit code.
pub(super) fn success_exit(arguments: &Run) -> Result<Option<u8>, CliError> {
    arguments
        .success_exit
        .map(|code| whole("success-exit", code, 0, 255))
        .transpose()
}

fn whole<T: TryFrom<i64>>(name: &str, value: i64, least: i64, most: i64) -> Result<T, CliError> {
    let refused = || {
        outside(
            name,
            &value.to_string(),
            &format!("it has to be from {least} to {most}"),
        )
    };
    if value < least || value > most {
        return Err(refused());
    }
    T::try_from(value).map_err(|_| refused())
}

fn millis(name: &str, span: Span) -> Result<RunMillis, CliError> {
    u64::try_from(span.millis).map(RunMillis).map_err(|_| {
        outside(
            name,
            &format!("{} ms", span.millis),
            "a duration cannot be negative",
        )
    })
}

fn money(name: &str, text: &str) -> Result<MicroUsd, CliError> {
    MicroUsd::parse(text).map_err(|error| match error {
        MoneyError::NotDecimal(_) => CliError::Usage(format!(
            "error: --{name}: {error}\n\nFor more information, try '--help'."
        )),
        MoneyError::Negative(_) | MoneyError::TooFine(_) | MoneyError::TooLarge(_) => {
            outside(name, text, &error.to_string())
        }
    })
}

fn outside(name: &str, value: &str, why: &str) -> CliError {
    Failure::invariant(format!("--{name} {value} can never be right: {why}"))
        .because("limit_invalid")
        .into()
}

fn pins(flags: &PinFlags) -> Result<Pins, CliError> {
    for (name, value, most) in [
        ("temperature", flags.temperature, f64::MAX),
        ("top-p", flags.top_p, 1.0),
    ] {
        if let Some(value) = value
            && !(0.0..=most).contains(&value)
        {
            return Err(outside(
                name,
                &value.to_string(),
                "it has to be a finite number from 0",
            ));
        }
    }
    if let Some(tokens) = flags.max_tokens {
        whole::<u32>("max-tokens", tokens, 1, i64::from(u32::MAX))?;
    }
    let pin = |value: String| Pin {
        value,
        source: PinSource::Declared,
    };
    let text = |flag: &Option<String>| flag.clone().map(pin);
    Ok(Pins {
        provider: text(&flags.model_provider),
        model_id: text(&flags.model_id),
        version: text(&flags.model_version),
        quantization: text(&flags.model_quantization),
        runtime: text(&flags.model_runtime),
        endpoint: text(&flags.model_endpoint),
        temperature: flags.temperature.map(|value| pin(value.to_string())),
        top_p: flags.top_p.map(|value| pin(value.to_string())),
        seed: flags.seed.map(|value| pin(value.to_string())),
        max_tokens: flags.max_tokens.map(|value| pin(value.to_string())),
    })
}

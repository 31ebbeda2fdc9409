//! From the command line to the exit code: parse, run, print one result, whatever happens.
//!
//! The exit classes are an API; they come from the core's table and nowhere else.

use std::{
    ffi::OsString,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::Mutex,
};

use clap::Parser as _;
use loopexec_core::halt::{ExitClass, FailureCause, HaltReason};
use loopexec_engine::failure::{Failure, chain};
use loopexec_os::signals::Signals;

use crate::{
    args::Arguments,
    command::{self, Answer},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
    ui::{self, Delivery},
};

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let json = wants_json(&words);
    remember_panics();
    let (answer, class) = match catch_unwind(AssertUnwindSafe(|| attempt(&words))) {
        Ok(Ok(answer)) => {
            let class = answer.class;
            (answer, class)
        }
        Ok(Err(error)) => (failed(&error), error.class()),
        Err(_) => {
            let failure = Failure::internal(panic_text())
                .because("defect")
                .hint("this is a defect of loopexec; what was recorded up to here is kept");
            let error = CliError::from(failure);
            (failed(&error), error.class())
        }
    };
    ExitCode::from(finish(json, &answer, class))
}

/// Prints the answer and gives the exit code.
fn finish(json: bool, answer: &Answer, class: ExitClass) -> u8 {
    let code = answer.code.unwrap_or_else(|| class.code());
    if !json {
        for line in &answer.talk {
            ui::say(line);
        }
    }
    let bytes = if json {
        answer.envelope.line()
    } else {
        ui::plain(&answer.text).into_bytes()
    };
    match ui::print_once(&bytes) {
        Delivery::Written | Delivery::ReaderGone => code,
        Delivery::Refused => ExitClass::Internal.code(),
    }
}

/// Whether `--json` stands anywhere before a `--`, also in a command line that cannot be parsed.
fn wants_json(words: &[OsString]) -> bool {
    words
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .any(|word| word == "--json")
}

fn attempt(words: &[OsString]) -> Result<Answer, CliError> {
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            return Err(CliError::Usage(error.render().to_string()));
        }
        Err(error) => return Ok(Answer::text(error.render().to_string())),
    };
    let signals = Signals::install()
        .map_err(|error| Failure::internal(format!("cannot handle signals: {}", chain(&error))))?;
    let invocation = Invocation {
        environment: std::env::vars_os().collect(),
        signals,
    };
    if !arguments.command.heeds_signals() {
        end_on_signal(&invocation.signals, arguments.global.json);
    }
    command::dispatch(arguments, &invocation)
}

/// Ends commands that only read, at once and with their one object.
fn end_on_signal(signals: &Signals, json: bool) {
    let Ok(subscription) = signals.subscribe() else {
        return;
    };
    let signals = signals.clone();
    std::thread::spawn(move || {
        while signals.pending().is_none() {
            if subscription.wait().is_err() {
                return;
            }
        }
        let failure = Failure::new(
            HaltReason::ExecutionFailure,
            "a signal ended the command before it was done",
        )
        .because(FailureCause::Cancelled.name());
        let error = CliError::from(failure);
        leave(finish(json, &failed(&error), error.class()));
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread that hears a signal must end the process; the object is out"
)]
fn leave(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// The answer for an error.
fn failed(error: &CliError) -> Answer {
    let mut envelope = Envelope::new("error");
    envelope.halt_reason = error.reason().map(|reason| reason.name().to_owned());
    envelope.failure_cause = error.cause().map(str::to_owned);
    envelope.errors = error.lines();
    let talk = match error {
        CliError::Usage(text) => vec![text.trim_end().to_owned()],
        CliError::Failed(failure) => {
            let mut talk = vec![format!("error: {}", failure.message)];
            talk.extend(failure.hint.iter().map(|hint| format!("hint: {hint}")));
            talk
        }
    };
    let text = error.reason().map_or_else(String::new, |reason| {
        let cause = error
            .cause()
            .map_or_else(String::new, |cause| format!("failure_cause: {cause}\n"));
        format!("status: error\nhalt_reason: {reason}\n{cause}")
    });
    Answer {
        envelope,
        text,
        talk,
        class: error.class(),
        code: None,
    }
}

static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the text of a panic for the envelope instead of printing it in the middle of the talk.
fn remember_panics() {
    std::panic::set_hook(Box::new(|info| {
        let mut slot = PANIC
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.get_or_insert_with(|| info.to_string());
    }));
}

fn panic_text() -> String {
    let slot = PANIC
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    slot.clone()
        .unwrap_or_else(|| "the program panicked".to_owned())
}

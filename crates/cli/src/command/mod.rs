//! One module a command: resolve what was typed, call the engine, render its answer.

mod ack;
mod attest;
pub(crate) mod blocks;
mod check;
mod completions;
mod demo;
mod explain_halt;
mod init;
mod replay;
mod report;
mod run;
mod runs;
mod schema;
mod status;
mod verify;
mod version;

pub(crate) use attest::Attestation;
pub(crate) use demo::Demo;
pub(crate) use run::Plan;
pub(crate) use runs::RunsBlock;

use loopexec_core::halt::ExitClass;

use crate::{
    args::{Arguments, Command},
    envelope::Envelope,
    error::CliError,
    invocation::Invocation,
};

/// What a command answers, in both forms.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For programs.
    pub(crate) envelope: Envelope,
    /// For people, on standard output.
    pub(crate) text: String,
    /// For people, on standard error; not with `--json`.
    pub(crate) talk: Vec<String>,
    /// The exit class.
    pub(crate) class: ExitClass,
    /// Another exit code than the class's: `--success-exit`.
    pub(crate) code: Option<u8>,
}

impl Answer {
    /// A nominal answer.
    pub(crate) fn new(envelope: Envelope, text: String) -> Self {
        Self {
            envelope,
            text,
            talk: Vec::new(),
            class: ExitClass::Nominal,
            code: None,
        }
    }

    /// A text that is its own data: help, a schema, completions.
    pub(crate) fn text(text: String) -> Self {
        Self::new(Envelope::new("ok"), text)
    }
}

/// Runs the command.
pub(crate) fn dispatch(arguments: Arguments, invocation: &Invocation) -> Result<Answer, CliError> {
    let global = &arguments.global;
    match arguments.command {
        Command::Ack(arguments) => ack::ack(global, &arguments, invocation),
        Command::Attest(arguments) => attest::attest(global, &arguments, invocation),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Schema(arguments) => schema::schema(&arguments),
        Command::Demo => demo::demo(global, invocation),
        Command::Init(arguments) => init::init(global, &arguments, invocation),
        Command::Run(arguments) => run::run(global, &arguments, invocation),
        Command::Step(arguments) => run::step(global, &arguments, invocation),
        Command::Status(arguments) => status::status(global, &arguments, invocation),
        Command::ExplainHalt(arguments) => {
            explain_halt::explain_halt(global, &arguments, invocation)
        }
        Command::Check(arguments) => check::check(global, &arguments, invocation),
        Command::Verify(arguments) => verify::verify(global, &arguments, invocation),
        Command::Report(arguments) => report::report(global, &arguments, invocation),
        Command::Replay(arguments) => replay::replay(global, &arguments, invocation),
        Command::Version => version::version(),
        Command::Runs(arguments) => runs::runs(global, &arguments, invocation),
    }
}

//! The command line as it is typed. What it means is decided where each command resolves it.
//!
//! Numbers that parse but cannot be right (`--max-iterations 0`) pass here and are refused by their domain.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::duration::Span;

// Headings of the help: what a person looks for together stands together.
const EVERY_COMMAND: &str = "Every command";
const COMMANDS: &str = "Commands of the loop";
const LIMITS: &str = "Limits";
const THE_RUN: &str = "The run";
const OUTPUT: &str = "Output";
const RECORDED: &str = "Recorded, and never acted on";

/// A deterministic governor for bounded agentic loops.
///
/// It runs a work command, runs an external check, decides by computation whether to go on or to stop, and leaves a
/// receipt that someone else can verify offline.
#[derive(Debug, Parser)]
#[command(name = "loopexec", version = crate::identity::VERSION, arg_required_else_help = true, infer_long_args = false, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print exactly one JSON object on standard output
    #[arg(long, global = true, help_heading = EVERY_COMMAND)]
    pub(crate) json: bool,
    /// The workspace (default: the current directory)
    #[arg(long, global = true, value_name = "DIR", help_heading = EVERY_COMMAND)]
    pub(crate) workdir: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prepare the current directory for runs
    Init(Init),
    /// The 60-second proof, offline: a red check, a real loop, a green check, a receipt, a replay
    Demo,
    /// Run a bounded loop until the check passes or a limit ends it
    Run(Box<Run>),
    /// Run one iteration of the loop, continuing the recorded run
    Step(Box<Run>),
    /// Show the recorded or live state of a run
    Status(Status),
    /// Check the state of the store: log, chain, snapshot, leftovers (not the application's check)
    Check(RunId),
    /// Say why a run stopped, and what kind of answer that asks for
    ExplainHalt(RunId),
    /// Verify a verdict: run the recorded check on the recorded end state and compare
    Replay(Replay),
    /// Verify a receipt without running anything: chain, fold, every decision, signatures
    Verify(Verify),
    /// Sign a receipt, or check its signatures
    Attest(Attest),
    /// The digest of a run
    Report(RunId),
    /// The recorded runs: list, undo, export, du, prune
    Runs(Runs),
    /// Acknowledge what the loops of this workspace changed; a person's act
    Ack(Ack),
    /// Print a JSON Schema, or the names of all
    Schema(Schema),
    /// Print completions for a shell
    Completions(Completions),
    /// Print which program this is
    Version,
}

impl Command {
    /// Whether the command itself ends in order when a signal comes.
    pub(crate) fn heeds_signals(&self) -> bool {
        match self {
            Self::Run(_) | Self::Step(_) | Self::Demo | Self::Replay(_) => true,
            Self::Init(_)
            | Self::Status(_)
            | Self::Check(_)
            | Self::ExplainHalt(_)
            | Self::Verify(_)
            | Self::Attest(_)
            | Self::Report(_)
            | Self::Runs(_)
            | Self::Ack(_)
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Version => false,
        }
    }
}

/// Which recorded run.
#[derive(Debug, Args)]
pub(crate) struct RunId {
    /// The run (default: the latest)
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Make the directory alone
    #[arg(long)]
    pub(crate) bare: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A live line in a terminal, plain lines elsewhere
    Auto,
    /// One line an event
    Plain,
    /// Nothing
    None,
}

/// Flags of `run` and `step`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The external check; its exit code is the verdict
    #[arg(long, help_heading = COMMANDS, value_name = "CMD")]
    pub(crate) check: Option<String>,
    /// The work command, run each iteration before the check
    #[arg(long, help_heading = COMMANDS, value_name = "CMD")]
    pub(crate) exec: Option<String>,
    /// Prints the ids that still fail, one a line: ends a run that goes in circles
    #[arg(long, help_heading = COMMANDS, value_name = "CMD")]
    pub(crate) failures_cmd: Option<String>,
    /// Prints the ids of all tests, one a line: ends a run when one that was there at the start is gone
    #[arg(long, help_heading = COMMANDS, value_name = "CMD")]
    pub(crate) integrity_cmd: Option<String>,
    /// The check's exit code that means pass [default: 0]
    #[arg(long, help_heading = COMMANDS, value_name = "N", allow_negative_numbers = true)]
    pub(crate) success_exit_code: Option<i64>,
    /// Iterations that may be started [default: 10]
    #[arg(long, help_heading = LIMITS, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_iterations: Option<i64>,
    /// One iteration: a cap of one
    #[arg(long, help_heading = LIMITS)]
    pub(crate) once: bool,
    /// Total time of the run, such as 8h [default: without limit]
    #[arg(long, help_heading = LIMITS, value_name = "D", allow_hyphen_values = true)]
    pub(crate) timeout: Option<Span>,
    /// Time of one command [default: without limit]
    #[arg(long, help_heading = LIMITS, value_name = "D", allow_hyphen_values = true)]
    pub(crate) command_timeout: Option<Span>,
    /// Time a command may neither print nor use the processor [default: without limit]
    #[arg(long, help_heading = LIMITS, value_name = "D", allow_hyphen_values = true)]
    pub(crate) idle_timeout: Option<Span>,
    /// Time between TERM and KILL [default: 250ms]
    #[arg(long, help_heading = LIMITS, value_name = "D", allow_hyphen_values = true)]
    pub(crate) terminate_grace: Option<Span>,
    /// With --failures-cmd: iterations without fewer failures than ever before that end the run [default: 3]
    #[arg(long, help_heading = LIMITS, value_name = "K", allow_negative_numbers = true)]
    pub(crate) no_progress_k: Option<i64>,
    /// Iterations since the last `ack` that end the run; 0 is off [default: 0]
    #[arg(long, help_heading = LIMITS, value_name = "N", allow_negative_numbers = true)]
    pub(crate) comprehension_every: Option<i64>,
    /// Allowance in USD; refused in this version, because nothing meters
    #[arg(long, help_heading = LIMITS, value_name = "X", allow_hyphen_values = true)]
    pub(crate) budget_usd: Option<String>,
    /// The run's name [default: local]
    #[arg(long, help_heading = THE_RUN, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Run the check once before the first work command
    #[arg(long, help_heading = THE_RUN)]
    pub(crate) baseline: bool,
    /// Refuse a check that is green before the work; takes the baseline
    #[arg(long, help_heading = THE_RUN)]
    pub(crate) require_red: bool,
    /// Print what would run, how often and for how long at most; run nothing
    #[arg(long, help_heading = THE_RUN)]
    pub(crate) dry_run: bool,
    /// Go on with the recorded run
    #[arg(long, help_heading = THE_RUN)]
    pub(crate) resume: bool,
    /// With --resume: raise --max-iterations or --timeout; needs --reviewer
    #[arg(long, help_heading = THE_RUN, requires = "resume")]
    pub(crate) raise: bool,
    /// Who raises a limit
    #[arg(long, help_heading = THE_RUN, value_name = "NAME")]
    pub(crate) reviewer: Option<String>,
    /// Say nothing while running
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// How progress is shown
    #[arg(long, help_heading = OUTPUT, value_enum, value_name = "MODE", default_value = "auto")]
    pub(crate) progress: ProgressMode,
    /// Print without colour
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_color: bool,
    /// Our exit code for success_condition_met [default: 10]
    #[arg(long, help_heading = OUTPUT, value_name = "N", allow_negative_numbers = true)]
    pub(crate) success_exit: Option<i64>,
    #[command(flatten)]
    pub(crate) pins: Pins,
    /// A file of the prompt's context, recorded with its digest; repeatable
    #[arg(long, help_heading = RECORDED, value_name = "PATH")]
    pub(crate) context_file: Vec<PathBuf>,
    /// Declared cost in USD; recorded, never metered
    #[arg(long, help_heading = RECORDED, value_name = "X", allow_hyphen_values = true)]
    pub(crate) cost_usd: Option<String>,
}

/// Model and sampling pins; they are recorded and select nothing.
#[derive(Debug, Args)]
pub(crate) struct Pins {
    /// Record who serves the model
    #[arg(long, help_heading = RECORDED, value_name = "NAME")]
    pub(crate) model_provider: Option<String>,
    /// Record the model
    #[arg(long, help_heading = RECORDED, value_name = "ID")]
    pub(crate) model_id: Option<String>,
    /// Record the model's version
    #[arg(long, help_heading = RECORDED, value_name = "V")]
    pub(crate) model_version: Option<String>,
    /// Record the model's quantization
    #[arg(long, help_heading = RECORDED, value_name = "Q")]
    pub(crate) model_quantization: Option<String>,
    /// Record what runs the model
    #[arg(long, help_heading = RECORDED, value_name = "NAME")]
    pub(crate) model_runtime: Option<String>,
    /// Record where the model is reached
    #[arg(long, help_heading = RECORDED, value_name = "URL")]
    pub(crate) model_endpoint: Option<String>,
    /// Record the sampling temperature
    #[arg(long, help_heading = RECORDED, value_name = "T", allow_negative_numbers = true)]
    pub(crate) temperature: Option<f64>,
    /// Record nucleus sampling
    #[arg(long, help_heading = RECORDED, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f64>,
    /// Record the sampling seed
    #[arg(long, help_heading = RECORDED, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<i64>,
    /// Record the most tokens of an answer
    #[arg(long, help_heading = RECORDED, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// The state as of that iteration
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) iteration: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// Run the check in a copy of the recorded tree
    #[arg(long)]
    pub(crate) in_copy: bool,
    /// Compare the output byte for byte
    #[arg(long)]
    pub(crate) strict: bool,
    /// A receipt or an export from elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// With --from: public keys that may have signed it (allowed signers)
    #[arg(long, value_name = "FILE")]
    pub(crate) trusted: Option<PathBuf>,
    /// With --from: run its command although no trusted key signed it
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Write a signed summary of this replay (verifier's key: --key-file)
    #[arg(long)]
    pub(crate) attest: bool,
    /// The verifier's key for --attest
    #[arg(long, value_name = "FILE", requires = "attest")]
    pub(crate) key_file: Option<PathBuf>,
    /// Most time of the check where the receipt names none
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) timeout: Option<Span>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// A receipt or an export from elsewhere, instead of a recorded run
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Public keys that may have signed it (allowed signers)
    #[arg(long, value_name = "FILE")]
    pub(crate) trusted: Option<PathBuf>,
    /// Strengths that have to be shown, such as adequacy,isolation
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) require: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Attest {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// Check the signatures instead of making them
    #[arg(long)]
    pub(crate) verify: bool,
    /// Ed25519 key in OpenSSH form, or its .pub for a key in the agent
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Secret of the HMAC form (else $LOOPEXEC_ATTEST_KEY)
    #[arg(long, value_name = "SECRET")]
    pub(crate) key: Option<String>,
    /// With --verify: public keys that may have signed it (allowed signers)
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub(crate) trusted: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) action: RunsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsAction {
    /// List the recorded runs
    List,
    /// Bring worktree and index back to what they were before a run
    Undo(RunId),
    /// Pack a run into one file that others can verify
    Export {
        /// The run
        run: String,
        /// The file to write
        file: PathBuf,
        /// Leave command strings and paths out
        #[arg(long)]
        redact: bool,
    },
    /// Show what the store takes on the disk
    Du,
    /// Remove old runs; never one that is active, signed or not acknowledged
    #[command(group(ArgGroup::new("which").args(["keep", "older"]).required(true).multiple(true)))]
    Prune {
        /// Runs to keep, the newest first
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        keep: Option<i64>,
        /// Remove only runs older than this
        #[arg(long, value_name = "D", allow_hyphen_values = true)]
        older: Option<Span>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Ack {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// Who acknowledges
    #[arg(long, value_name = "NAME")]
    pub(crate) reviewer: Option<String>,
    /// Print the difference since the last acknowledgement; acknowledge nothing
    #[arg(long)]
    pub(crate) show: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Which one; without it, the names
    #[arg(value_enum)]
    pub(crate) name: Option<SchemaName>,
}

/// The objects that leave the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaName {
    /// What --json prints
    Envelope,
    /// A line of a receipt
    Receipt,
    /// A run's state.json
    State,
    /// A line of workspace.jsonl
    WorkspaceLog,
    /// The file that a work command is given
    Feedback,
    /// The heartbeat
    Heartbeat,
}

impl SchemaName {
    /// All of them, in the order in which they are listed.
    pub(crate) const ALL: &[Self] = &[
        Self::Envelope,
        Self::Receipt,
        Self::State,
        Self::WorkspaceLog,
        Self::Feedback,
        Self::Heartbeat,
    ];

    /// The public name.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Receipt => "receipt",
            Self::State => "state",
            Self::WorkspaceLog => "workspace-log",
            Self::Feedback => "feedback",
            Self::Heartbeat => "heartbeat",
        }
    }

    /// The schema's title.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Envelope => "loopexec envelope",
            Self::Receipt => "loopexec receipt line",
            Self::State => "loopexec run state",
            Self::WorkspaceLog => "loopexec workspace log line",
            Self::Feedback => "loopexec feedback to the work command",
            Self::Heartbeat => "loopexec heartbeat",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

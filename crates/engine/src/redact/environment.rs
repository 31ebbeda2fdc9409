//! Which variables a check and a work command may see, and the digest that says which environment it was.
//!
//! A check judges; it needs no credentials, so it gets none. A work command that is not isolated *is* the agent and
//! calls the model itself: its model keys stay. It must not know how commands are started.

use std::ffi::{OsStr, OsString};

use sha2::{Digest, Sha256};

use super::Redactor;
use super::shapes::Shape;

/// Keys of model providers, named because a check must never see them. The name rule finds them too.
pub const MODEL_KEYS: [&str; 12] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
];

/// Never passed on: the key that signs, and the way to one.
const SIGNING: [&str; 2] = ["LOOPEXEC_ATTEST_KEY", "SSH_AUTH_SOCK"];

/// Name the terminal session and no behaviour: left out of the digest, or resuming from another window would look like
/// another environment. They are still passed on.
const SESSION: [&str; 20] = [
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_TTY",
    "ITERM_SESSION_ID",
    "LINES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_AGENT_PID",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STY",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "WINDOWID",
    "XDG_SESSION_ID",
    "XDG_VTNR",
    "_",
];

/// Parts of a name that make it secret wherever they stand.
const ANYWHERE: [&str; 12] = [
    "ACCESS_KEY",
    "ACCESSKEY",
    "API_KEY",
    "APIKEY",
    "CREDENTIAL",
    "ENCRYPTION_KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SIGNING_KEY",
];

/// Words of a name, between underscores, that make it secret. As words, so that `GIT_AUTHOR_NAME` is none.
const WORDS: [&str; 8] = [
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "JWT",
    "PASS",
    "PAT",
    "TOKENS",
];

/// An environment for one kind of command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedEnvironment {
    /// What the command gets, sorted by name, each name once.
    pub variables: Vec<(OsString, OsString)>,
    /// sha256 hex over `name=value NUL` of those variables, in that order, secrets replaced, without session names.
    pub sha256: String,
    /// Names of the start environment that are not passed on, sorted.
    pub withheld: Vec<String>,
}

/// The start environment for a check: without secrets, signing keys, model keys and `LOOPEXEC_*`.
///
/// Also without a variable of harmless name whose whole value is a key.
#[must_use]
pub fn for_check(redactor: &Redactor, start: &[(OsString, OsString)]) -> PreparedEnvironment {
    prepare(redactor, start, |name, value| {
        let text = name.to_string_lossy();
        text.starts_with("LOOPEXEC_")
            || MODEL_KEYS.contains(&text.as_ref())
            || is_secret(name, value)
            || is_key(redactor, value)
    })
}

/// The start environment for a work command: only the signing keys are withheld.
///
/// Model keys stay, because an agent that is not isolated calls the model itself. An isolated one gets its environment
/// from its zone, not from here.
#[must_use]
pub fn for_work(redactor: &Redactor, start: &[(OsString, OsString)]) -> PreparedEnvironment {
    prepare(redactor, start, |_, _| false)
}

fn prepare(
    redactor: &Redactor,
    start: &[(OsString, OsString)],
    withhold: impl Fn(&OsStr, &[u8]) -> bool,
) -> PreparedEnvironment {
    let mut variables = Vec::with_capacity(start.len());
    let mut withheld = Vec::new();
    for (name, value) in start {
        let signing = SIGNING.iter().any(|signing| name == signing);
        if signing || withhold(name, value.as_encoded_bytes()) {
            withheld.push(name.to_string_lossy().into_owned());
        } else {
            variables.push((name.clone(), value.clone()));
        }
    }
    variables.sort_by(|left, right| left.0.cmp(&right.0));
    variables.dedup_by(|next, kept| next.0 == kept.0);
    withheld.sort();
    withheld.dedup();
    let sha256 = digest(redactor, &variables);
    PreparedEnvironment {
        variables,
        sha256,
        withheld,
    }
}

fn digest(redactor: &Redactor, variables: &[(OsString, OsString)]) -> String {
    let mut sha256 = Sha256::new();
    for (name, value) in variables {
        if SESSION.iter().any(|session| name == session) {
            continue;
        }
        let bytes = value.as_encoded_bytes();
        sha256.update(name.as_encoded_bytes());
        sha256.update(b"=");
        if is_secret(name, bytes) {
            // The name alone: also a secret too short to be searched for must not be guessed from its digest.
            sha256.update(b"[redacted]");
        } else {
            sha256.update(redactor.redact(bytes));
        }
        sha256.update(b"\0");
    }
    format!("{:x}", sha256.finalize())
}

/// Whether a variable of this name holds a secret, by its name alone.
#[must_use]
pub fn name_looks_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    // `PWD` is the working directory, `DB_PWD` is not.
    let password = name.len() > 4 && name.ends_with("_PWD");
    password
        || ANYWHERE.iter().any(|part| name.contains(part))
        || name
            .split('_')
            .any(|word| WORDS.contains(&word) || word.ends_with("TOKEN"))
        || SIGNING.contains(&name.as_str())
}

/// By its name, or a name that ends in `_KEY` with a value that looks random.
pub(super) fn is_secret(name: &OsStr, value: &[u8]) -> bool {
    if name_looks_secret(name) {
        // `MAX_TOKENS=100000` is a limit, and so is every other plain number.
        return value.is_empty() || !value.iter().all(u8::is_ascii_digit) || !counts_tokens(name);
    }
    name.to_string_lossy()
        .to_ascii_uppercase()
        .ends_with("_KEY")
        && looks_random(value)
}

fn counts_tokens(name: &OsStr) -> bool {
    name.to_string_lossy()
        .to_ascii_uppercase()
        .split('_')
        .any(|word| word == "TOKENS")
}

/// A shortest length at which letters and digits without a slash are hardly a name any more.
const RANDOM_BYTES: usize = 20;

fn looks_random(value: &[u8]) -> bool {
    value.len() >= RANDOM_BYTES
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
        && !value.iter().any(|byte| {
            matches!(byte, b' ' | b':' | b'.') || *byte == b'/' && value.first() == Some(&b'/')
        })
}

/// Whether the whole value is a key, whatever its name.
fn is_key(redactor: &Redactor, value: &[u8]) -> bool {
    redactor
        .inner
        .values
        .iter()
        .any(|(_, secret)| secret == value)
        || Shape::confirm(value, [0; 2]).is_some()
}

//! The shapes of well-known keys: a fixed beginning, then enough bytes of a certain kind.
//!
//! A shape is *confirmed* by a bounded number of bytes; what follows of the key is then swallowed byte by byte, so that
//! a stream never has to hold a whole key back. It must not know where the text comes from.

/// How many bytes from its start decide whether a shape is there. The longest are the headers of JSON web tokens.
pub(super) const CONFIRM_BYTES: usize = 2 << 10;

/// How much an unterminated private key block can swallow: an RSA key of 16,384 bits in PEM is about 12 KiB.
const PEM_BYTES: usize = 16 << 10;

/// The longest label of a private key block, as in `-----BEGIN LABEL-----`.
const PEM_LABEL_BYTES: usize = 40;

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";

/// Which bytes belong to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// ASCII letters and digits.
    Alphanumeric,
    /// Also `-`.
    Dashed,
    /// Also `-` and `_`: base64url.
    Word,
    /// Also `.`: the parts of a JSON web token.
    Dotted,
    /// Upper-case letters and digits.
    Upper,
}

impl Class {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Dashed => byte.is_ascii_alphanumeric() || byte == b'-',
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }

    /// How many of the first bytes belong to the class.
    fn run(self, text: &[u8]) -> usize {
        text.iter()
            .position(|byte| !self.has(*byte))
            .unwrap_or(text.len())
    }
}

/// What must be true after the beginning, beside enough bytes of the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Nothing more.
    Run,
    /// No longer than the smallest length: identifiers of a fixed length.
    Exact,
    /// The beginning is short enough to be the end of a word (`task-…`): it must begin a word, and have a digit.
    Weak,
    /// A second part after a dot, which again begins like a JSON object.
    Token,
    /// A private key block.
    Pem,
}

struct Known {
    begins: &'static [u8],
    name: &'static str,
    class: Class,
    at_least: usize,
    rule: Rule,
}

const fn known(
    begins: &'static [u8],
    name: &'static str,
    class: Class,
    at_least: usize,
    rule: Rule,
) -> Known {
    Known {
        begins,
        name,
        class,
        at_least,
        rule,
    }
}

/// Longer beginnings first: the first that is confirmed names the key.
static KNOWN: [Known; 20] = [
    known(b"sk-ant-", "anthropic-key", Class::Word, 16, Rule::Run),
    known(b"sk-", "api-key", Class::Word, 20, Rule::Weak),
    known(b"github_pat_", "github-token", Class::Word, 20, Rule::Run),
    known(b"ghp_", "github-token", Class::Alphanumeric, 20, Rule::Run),
    known(b"gho_", "github-token", Class::Alphanumeric, 20, Rule::Run),
    known(b"ghu_", "github-token", Class::Alphanumeric, 20, Rule::Run),
    known(b"ghs_", "github-token", Class::Alphanumeric, 20, Rule::Run),
    known(b"ghr_", "github-token", Class::Alphanumeric, 20, Rule::Run),
    known(b"glpat-", "gitlab-token", Class::Word, 16, Rule::Run),
    known(b"xoxa-", "slack-token", Class::Dashed, 10, Rule::Run),
    known(b"xoxb-", "slack-token", Class::Dashed, 10, Rule::Run),
    known(b"xoxp-", "slack-token", Class::Dashed, 10, Rule::Run),
    known(b"xoxr-", "slack-token", Class::Dashed, 10, Rule::Run),
    known(b"xoxs-", "slack-token", Class::Dashed, 10, Rule::Run),
    known(b"AKIA", "aws-access-key", Class::Upper, 16, Rule::Exact),
    known(b"ASIA", "aws-access-key", Class::Upper, 16, Rule::Exact),
    known(b"AIza", "google-key", Class::Word, 35, Rule::Run),
    known(b"eyJ", "json-web-token", Class::Word, 8, Rule::Token),
    known(b"npm_", "npm-token", Class::Alphanumeric, 36, Rule::Run),
    known(PEM_BEGIN, "private-key", Class::Word, 0, Rule::Pem),
];

/// The beginnings, to search for.
pub(super) fn prefixes<'a>() -> impl Iterator<Item = &'a [u8]> {
    KNOWN.iter().map(|known| known.begins)
}

/// A shape that is certainly there.
pub(super) struct Shape {
    /// Stands in place of the key.
    pub(super) name: &'static str,
    /// Bytes that are certainly of the key.
    pub(super) confirmed: usize,
    /// How the rest of the key ends, when it may be longer.
    pub(super) swallow: Option<Swallow>,
}

impl Shape {
    /// Looks at the start of `text`, no further than [`CONFIRM_BYTES`].
    pub(super) fn confirm(text: &[u8], before: [u8; 2]) -> Option<Self> {
        let text = text.get(..CONFIRM_BYTES).unwrap_or(text);
        KNOWN.iter().find_map(|known| {
            let body = text.strip_prefix(known.begins)?;
            let (taken, swallow) = known.confirm_body(body, before)?;
            Some(Self {
                name: known.name,
                confirmed: known.begins.len() + taken,
                swallow,
            })
        })
    }
}

impl Known {
    fn confirm_body(&self, body: &[u8], before: [u8; 2]) -> Option<(usize, Option<Swallow>)> {
        if self.rule == Rule::Pem {
            return Some((
                pem_label(body)?,
                Some(Swallow::Pem(Pem {
                    left: PEM_BYTES,
                    seen: Seen::Body(0),
                })),
            ));
        }
        let run = self.class.run(body);
        if run < self.at_least {
            return None;
        }
        let key = body.get(..run)?;
        match self.rule {
            Rule::Run => Some((run, Some(Swallow::Run(self.class)))),
            Rule::Exact => {
                let next = body.get(run).copied().unwrap_or(b' ');
                (run == self.at_least && !next.is_ascii_alphanumeric()).then_some((run, None))
            }
            Rule::Weak => (begins_word(before) && key.iter().any(u8::is_ascii_digit))
                .then_some((run, Some(Swallow::Run(self.class)))),
            Rule::Token => {
                let second = body.get(run..)?.strip_prefix(b".eyJ")?;
                (Class::Word.run(second) >= self.at_least)
                    .then_some((run, Some(Swallow::Run(Class::Dotted))))
            }
            // Answered above; a block has no run of one class.
            Rule::Pem => None,
        }
    }
}

/// Whether a word can begin after these two bytes: after no word byte, after an escape as in `\n`, or after a colour code.
fn begins_word(before: [u8; 2]) -> bool {
    let [second, last] = before;
    let escape = second == b'\\' && last.is_ascii_lowercase();
    let colour = last == b'm' && (second.is_ascii_digit() || second == b'[');
    !(last.is_ascii_alphanumeric() || matches!(last, b'_' | b'-')) || escape || colour
}

/// The length of `LABEL-----` when the label names a private key.
fn pem_label(body: &[u8]) -> Option<usize> {
    let body = body.get(..PEM_LABEL_BYTES + 5).unwrap_or(body);
    let label_bytes = body.iter().position(|byte| *byte == b'-')?;
    let label = body.get(..label_bytes)?;
    let label = label.strip_suffix(b" BLOCK").unwrap_or(label);
    let plain = label
        .iter()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ');
    let closed = body.get(label_bytes..)?.starts_with(b"-----");
    (plain && closed && label.ends_with(b"PRIVATE KEY")).then_some(label_bytes + 5)
}

/// The rest of a key, which is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Swallow {
    Run(Class),
    Pem(Pem),
}

/// Where in a private key block a stream is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pem {
    left: usize,
    seen: Seen,
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    /// This many bytes of `-----END `.
    Body(usize),
    /// This many of the five dashes after the label.
    Closing(usize),
}

impl Swallow {
    /// How many of the first bytes belong to the key, and whether it ended there.
    pub(super) fn take(&mut self, text: &[u8]) -> (usize, bool) {
        match self {
            Self::Run(class) => {
                let run = class.run(text);
                (run, run < text.len())
            }
            Self::Pem(pem) => {
                for (index, byte) in text.iter().enumerate() {
                    match pem.step(*byte) {
                        Step::Inside => {}
                        Step::Last => return (index + 1, true),
                        Step::Outside => return (index, true),
                    }
                }
                (text.len(), false)
            }
        }
    }
}

enum Step {
    Inside,
    Last,
    Outside,
}

impl Pem {
    fn step(&mut self, byte: u8) -> Step {
        let Some(left) = self.left.checked_sub(1) else {
            return Step::Outside;
        };
        self.left = left;
        // `\` because a block is often printed inside a string, with its newlines escaped.
        let belongs = byte.is_ascii_alphanumeric()
            || byte.is_ascii_whitespace()
            || matches!(byte, b'+' | b'/' | b'=' | b'-' | b':' | b',' | b'\\');
        if !belongs {
            return Step::Outside;
        }
        self.seen = match self.seen {
            Seen::Body(seen) if PEM_END.get(seen) == Some(&byte) => {
                if seen + 1 == PEM_END.len() {
                    Seen::Closing(0)
                } else {
                    Seen::Body(seen + 1)
                }
            }
            Seen::Body(seen) if byte == b'-' => Seen::Body(if seen == 5 { 5 } else { 1 }),
            Seen::Body(_) => Seen::Body(0),
            Seen::Closing(4) if byte == b'-' => return Step::Last,
            Seen::Closing(dashes) if byte == b'-' => Seen::Closing(dashes + 1),
            Seen::Closing(_) => Seen::Closing(0),
        };
        Step::Inside
    }
}

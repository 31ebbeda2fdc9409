//! The `allowed_signers` file of OpenSSH: who may sign, with which key, for what, and when.
//!
//! A line that is not understood refuses the whole file: an option that was skipped might have been the one that forbids.
//! The clock and the file are the caller's.

use super::NAMESPACE;
use super::key::PublicKey;

/// A list of people; 1 MiB is some ten thousand of them.
pub const FILE_BYTES: usize = 1 << 20;

/// Why a file is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignersError {
    /// The file is longer than [`FILE_BYTES`].
    #[error("the list of allowed signers is {found} bytes, more than {FILE_BYTES}")]
    TooLarge {
        /// Its length in bytes.
        found: usize,
    },
    /// A line is not understood.
    #[error("line {line} of the allowed signers: {reason}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why no line admits a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// No line has the key.
    #[error("no allowed signer has this key")]
    UnknownKey,
    /// The key is there, for other purposes.
    #[error("line {line} allows the key, but not for {NAMESPACE}")]
    OtherNamespace {
        /// Which line.
        line: usize,
    },
    /// The key is there, for another time.
    #[error("line {line} allows the key, but not at this time")]
    OtherTime {
        /// Which line.
        line: usize,
    },
    /// The key is there, under another name.
    #[error("line {line} allows the key, but not as {wanted}")]
    OtherPrincipal {
        /// Which line.
        line: usize,
        /// The name that was asked for.
        wanted: String,
    },
}

/// Who signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The principals of the line, as it has them.
    pub principal: String,
    /// Which line, from 1.
    pub line: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    principals: String,
    key: PublicKey,
    namespaces: Option<String>,
    /// Unix seconds, inclusive.
    valid_after: Option<i64>,
    /// Unix seconds, exclusive.
    valid_before: Option<i64>,
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct AllowedSigners {
    entries: Vec<Entry>,
}

impl AllowedSigners {
    /// Reads a file. Lines of keys other than Ed25519 are kept out, for they can admit no receipt.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn parse(text: &[u8]) -> Result<Self, SignersError> {
        if text.len() > FILE_BYTES {
            return Err(SignersError::TooLarge { found: text.len() });
        }
        let mut entries = Vec::new();
        for (index, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = index + 1;
            let refused = |reason: String| SignersError::Line { line, reason };
            let text = std::str::from_utf8(bytes)
                .map_err(|source| refused(source.to_string()))?
                .trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            entries.extend(parse_line(text, line).map_err(refused)?);
        }
        Ok(Self { entries })
    }

    /// Every key of the list, also those that no line admits now.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.entries.iter().map(|entry| &entry.key)
    }

    /// Whether the key may sign receipts at a time (Unix seconds), and as whom. `wanted` asks for one identity.
    ///
    /// # Errors
    /// The closest reason of any line.
    pub fn admit(
        &self,
        key: &PublicKey,
        wanted: Option<&str>,
        now: i64,
    ) -> Result<Admitted, NotAdmitted> {
        let mut closest = NotAdmitted::UnknownKey;
        for entry in self.entries.iter().filter(|entry| entry.key == *key) {
            match entry.admits(wanted, now) {
                Ok(admitted) => return Ok(admitted),
                Err(reason) => closest = reason,
            }
        }
        Err(closest)
    }
}

impl Entry {
    fn admits(&self, wanted: Option<&str>, now: i64) -> Result<Admitted, NotAdmitted> {
        let line = self.line;
        if self
            .namespaces
            .as_ref()
            .is_some_and(|patterns| !matches_list(patterns, NAMESPACE))
        {
            return Err(NotAdmitted::OtherNamespace { line });
        }
        let begun = self.valid_after.is_none_or(|after| now >= after);
        let ended = self.valid_before.is_some_and(|before| now >= before);
        if !begun || ended {
            return Err(NotAdmitted::OtherTime { line });
        }
        if let Some(wanted) = wanted.filter(|wanted| !matches_list(&self.principals, wanted)) {
            return Err(NotAdmitted::OtherPrincipal {
                line,
                wanted: wanted.to_owned(),
            });
        }
        Ok(Admitted {
            principal: wanted.map_or_else(|| self.principals.clone(), str::to_owned),
            line,
        })
    }
}

/// `principals [options] key-type key [comment]`. None for a key of another type.
fn parse_line(text: &str, line: usize) -> Result<Option<Entry>, String> {
    let (principals, rest) = principals(text)?;
    let mut entry_options = Options::default();
    let mut key = rest;
    if !is_key_type(first_word(rest)) {
        let (options, after) = rest
            .split_at_checked(options_bytes(rest))
            .unwrap_or((rest, ""));
        entry_options = Options::parse(options)?;
        key = after.trim_start();
    }
    if !is_key_type(first_word(key)) {
        return Err(format!("{:?} is no key type", first_word(key)));
    }
    if first_word(key) != "ssh-ed25519" {
        return Ok(None);
    }
    let key = PublicKey::from_openssh(key, "its key").map_err(|source| source.to_string())?;
    let Options {
        namespaces,
        valid_after,
        valid_before,
    } = entry_options;
    Ok(Some(Entry {
        line,
        principals,
        key,
        namespaces,
        valid_after,
        valid_before,
    }))
}

fn first_word(text: &str) -> &str {
    text.split_ascii_whitespace().next().unwrap_or_default()
}

fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
        .iter()
        .any(|begin| word.starts_with(begin))
}

/// The first field, with or without quotes.
fn principals(text: &str) -> Result<(String, &str), String> {
    let split = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"'),
        None => text.split_once([' ', '\t']),
    };
    match split {
        Some((principals, rest)) if !principals.is_empty() => {
            Ok((principals.to_owned(), rest.trim_start()))
        }
        Some(_) | None => Err("it needs principals, a key type and a key".into()),
    }
}

/// The options end at the first blank outside quotes.
fn options_bytes(text: &str) -> usize {
    let mut quoted = false;
    let end = text.bytes().position(|byte| {
        quoted ^= byte == b'"';
        !quoted && (byte == b' ' || byte == b'\t')
    });
    end.unwrap_or(text.len())
}

#[derive(Default)]
struct Options {
    namespaces: Option<String>,
    valid_after: Option<i64>,
    valid_before: Option<i64>,
}

impl Options {
    fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (name, after) = rest
                .split_once('=')
                .ok_or_else(|| format!("option {rest:?} is not supported"))?;
            let quoted = after
                .strip_prefix('"')
                .and_then(|value| value.split_once('"'));
            let (value, after) =
                quoted.ok_or_else(|| format!("the value of option {name:?} is not in quotes"))?;
            options.set(name, value)?;
            rest = match after.strip_prefix(',') {
                Some(next) if !next.is_empty() => next,
                None if after.is_empty() => after,
                Some(_) | None => return Err(format!("{after:?} follows option {name:?}")),
            };
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let twice = match name.to_ascii_lowercase().as_str() {
            "namespaces" => self.namespaces.replace(value.to_owned()).is_some(),
            "valid-after" => self.valid_after.replace(timestamp(value)?).is_some(),
            "valid-before" => self.valid_before.replace(timestamp(value)?).is_some(),
            // `cert-authority` above all: certificates are not read, so it must not pass for a key.
            _ => return Err(format!("option {name:?} is not supported")),
        };
        if twice {
            Err(format!("option {name:?} stands twice"))
        } else {
            Ok(())
        }
    }
}

/// `YYYYMMDD[HHMM[SS]]Z`, in Unix seconds.
fn timestamp(text: &str) -> Result<i64, String> {
    let refused = |reason: &str| format!("time {text:?} {reason}");
    let local = "has no Z; a local time means another moment on each machine";
    let digits = text
        .strip_suffix(['Z', 'z'])
        .ok_or_else(|| refused(local))?;
    let form = || refused("is not YYYYMMDD[HHMM[SS]]Z");
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(form());
    }
    let field = |from: usize, to: usize| -> Result<i64, String> {
        digits
            .get(from..to)
            .map_or(Ok(0), |text| text.parse().map_err(|_| form()))
    };
    let (year, month, day) = (field(0, 4)?, field(4, 6)?, field(6, 8)?);
    let (hour, minute, second) = (field(8, 10)?, field(10, 12)?, field(12, 14)?);
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return Err(form());
    }
    Ok(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days of the proleptic Gregorian calendar: years begin in March, so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// OpenSSH's lists of patterns: one must match, and none that begins with `!`.
fn matches_list(patterns: &str, text: &str) -> bool {
    let mut matched = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(negated) if matches_pattern(negated.as_bytes(), text.as_bytes()) => return false,
            Some(_) => {}
            None => matched |= matches_pattern(pattern.as_bytes(), text.as_bytes()),
        }
    }
    matched
}

/// `*` is any text, `?` any one byte. Returns to the last `*` only, so the cost is the product of both lengths.
fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        let same = pattern
            .get(at)
            .is_some_and(|byte| *byte == b'?' || Some(byte) == text.get(from));
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
        } else if same {
            at += 1;
            from += 1;
        } else if let Some((star_at, star_from)) = star {
            star = Some((star_at, star_from + 1));
            at = star_at + 1;
            from = star_from + 1;
        } else {
            return false;
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

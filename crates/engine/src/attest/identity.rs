//! The identity that is made on first use, when no key was named.
//!
//! Two programs that start at once end with one key: the file is complete before it gets its name, and a name that is
//! taken stays. Where it lies, the caller says.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ssh_key::LineEnding;
use ssh_key::private::{Ed25519Keypair, KeypairData};

use super::key::{KeyError, Signer};

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The identity exists and cannot be used.
    #[error("the identity cannot be used")]
    Key(#[from] KeyError),
    /// A file or directory cannot be made.
    #[error("{action} {path}")]
    Write {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The system has no randomness.
    #[error("the system gave no random bytes for a new key")]
    Random(getrandom::Error),
    /// The new key has no OpenSSH form.
    #[error("the new key cannot be encoded")]
    Encode(#[from] ssh_key::Error),
}

/// An identity, and whether this call made it.
#[derive(Debug)]
pub struct Identity {
    /// The key.
    pub signer: Signer,
    /// True on first use: worth telling the person where the key lies.
    pub created: bool,
}

/// Loads the key at `path`, or makes one there: mode 0600, in a directory of mode 0700, with a `.pub` file beside it.
///
/// # Errors
/// An existing file that is no usable key is never replaced.
pub fn load_or_create(path: &Path, comment: &str) -> Result<Identity, IdentityError> {
    if path.symlink_metadata().is_ok() {
        return Ok(Identity {
            signer: Signer::from_file(path, None)?,
            created: false,
        });
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed("creating", directory))?;
    let created = create(path, directory, comment)?;
    Ok(Identity {
        signer: Signer::from_file(path, None)?,
        created,
    })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> IdentityError {
    let path = path.to_owned();
    move |source| IdentityError::Write {
        action,
        path,
        source,
    }
}

/// False when another program was first.
fn create(path: &Path, directory: &Path, comment: &str) -> Result<bool, IdentityError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(IdentityError::Random)?;
    let key = ssh_key::PrivateKey::new(
        KeypairData::Ed25519(Ed25519Keypair::from_seed(&seed)),
        comment,
    )?;
    seed.fill(0);
    let text = key.to_openssh(LineEnding::LF)?;
    // A named temporary file is private from its first moment.
    if !publish(path, directory, text.as_bytes())? {
        return Ok(false);
    }
    let mut public = key.public_key().to_openssh()?;
    public.push('\n');
    let mut public_path = path.as_os_str().to_owned();
    public_path.push(".pub");
    publish(Path::new(&public_path), directory, public.as_bytes())?;
    let opened = fs_err::File::open(directory).map_err(failed("opening", directory))?;
    opened.sync_all().map_err(failed("syncing", directory))?;
    Ok(true)
}

/// Writes a file that is complete when it appears. False when the name is taken.
fn publish(path: &Path, directory: &Path, contents: &[u8]) -> Result<bool, IdentityError> {
    let mut file = tempfile::NamedTempFile::new_in(directory)
        .map_err(failed("creating a file in", directory))?;
    file.write_all(contents).map_err(failed("writing", path))?;
    file.as_file().sync_all().map_err(failed("syncing", path))?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed("naming", path)(error.error)),
    }
}

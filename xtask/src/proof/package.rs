//! The packages: where they come from, how their own tests are run and their failures listed, where they are broken.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::support;

/// Longest time for a download or one run of a package's tests.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);
/// What lists test failures of `minimist`; the package names no version that ships it.
const TAPE: &str = "tape@4.17.0";

/// A published package.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// Programs that fetch and test it.
    pub(super) needs: &'static [&'static str],
    registry: Registry,
    /// The file that is broken, and how: each text is there once.
    pub(super) file: &'static str,
    pub(super) breaks: [(&'static str, &'static str); 2],
}

#[derive(Clone, Copy, Debug)]
enum Registry {
    Crates,
    PyPi,
    Npm,
}

/// A package on this machine.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) source: PathBuf,
    pub(super) check: String,
    pub(super) failures: String,
}

/// Small packages whose release archives hold their tests, and whose tests need no network.
pub(super) const PACKAGES: &[Package] = &[
    Package {
        name: "strsim",
        version: "0.11.1",
        needs: &["cargo", "rustc"],
        registry: Registry::Crates,
        file: "src/lib.rs",
        breaks: [("count += 1;", "count += 2;"), ("sim > 0.7", "sim > 0.97")],
    },
    Package {
        name: "xmltodict",
        version: "0.13.0",
        needs: &["python3"],
        registry: Registry::PyPi,
        file: "xmltodict.py",
        breaks: [
            ("strip_whitespace=True,", "strip_whitespace=False,"),
            ("comment_key='#comment'):", "comment_key='#remark'):"),
        ],
    },
    Package {
        name: "minimist",
        version: "1.2.8",
        needs: &["npm", "node"],
        registry: Registry::Npm,
        file: "index.js",
        breaks: [
            ("i < keys.length - 1;", "i < keys.length - 2;"),
            ("args.indexOf('--') + 1", "args.indexOf('--') + 2"),
        ],
    },
];

impl Package {
    /// Downloads it below `root`.
    pub(super) fn fetch(&self, root: &Path) -> Result<Fetched, String> {
        match self.registry {
            Registry::Crates => self.fetch_crate(root),
            Registry::PyPi => self.fetch_sdist(root),
            Registry::Npm => self.fetch_npm(root),
        }
    }

    fn fetch_crate(&self, root: &Path) -> Result<Fetched, String> {
        let project = root.join("project");
        let write = |path: &Path, text: &str| {
            let parent = path.parent().unwrap_or(path);
            fs_err::create_dir_all(parent)
                .and_then(|()| fs_err::write(path, text))
                .map_err(|error| error.to_string())
        };
        let manifest = format!(
            "[package]\nname = \"throwaway\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\n{} = \"={}\"\n[workspace]\n",
            self.name, self.version
        );
        write(&project.join("Cargo.toml"), &manifest)?;
        write(&project.join("src/lib.rs"), "")?;
        let mut vendor = support::command("cargo");
        vendor
            .args(["vendor", "--quiet", "vendor"])
            .current_dir(&project);
        support::must(&mut vendor, DEADLINE)?;
        let mut sysroot = support::command("rustc");
        let sysroot = support::must(sysroot.args(["--print", "sysroot"]), DEADLINE)?;
        let sysroot = String::from_utf8_lossy(&sysroot);
        // The toolchain itself and not its launcher, which looks for the toolchain in the home directory.
        let cargo = format!(
            "PATH={}/bin:$PATH CARGO_TARGET_DIR={} cargo test --offline --lib",
            sysroot.trim(),
            root.join("target").display()
        );
        // Out of the project, or it would count as a member of it.
        let source = root.join("source");
        fs_err::rename(project.join("vendor").join(self.name), &source)
            .map_err(|error| error.to_string())?;
        Ok(Fetched {
            source,
            check: format!("{cargo} --quiet"),
            failures: format!("{cargo} 2>&1 | awk '/^test .* FAILED$/ {{print $2}}'"),
        })
    }

    fn fetch_sdist(&self, root: &Path) -> Result<Fetched, String> {
        let wanted = format!("{}=={}", self.name, self.version);
        let mut pip = support::command("python3");
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            &wanted,
        ])
        .current_dir(root);
        support::must(&mut pip, DEADLINE)?;
        self.unpack(root, &format!("{}-{}.tar.gz", self.name, self.version))?;
        let mut python = support::command("python3");
        let python = support::must(
            python.args(["-c", "import sys; print(sys.executable)"]),
            DEADLINE,
        )?;
        let tests = format!(
            "PYTHONDONTWRITEBYTECODE=1 {} -m unittest discover -s tests",
            String::from_utf8_lossy(&python).trim()
        );
        Ok(Fetched {
            source: root.join(format!("{}-{}", self.name, self.version)),
            failures: format!("{tests} 2>&1 | awk '/^(FAIL|ERROR): / {{print $2}}'"),
            check: tests,
        })
    }

    fn fetch_npm(&self, root: &Path) -> Result<Fetched, String> {
        let wanted = format!("{}@{}", self.name, self.version);
        let mut pack = support::command("npm");
        pack.args(["pack", "--silent", &wanted]).current_dir(root);
        support::must(&mut pack, DEADLINE)?;
        self.unpack(root, &format!("{}-{}.tgz", self.name, self.version))?;
        let tools = root.join("tools");
        fs_err::create_dir_all(&tools).map_err(|error| error.to_string())?;
        let mut install = support::command("npm");
        install
            .args([
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                TAPE,
            ])
            .current_dir(&tools);
        support::must(&mut install, DEADLINE)?;
        let path = format!("export NODE_PATH={}", tools.join("node_modules").display());
        Ok(Fetched {
            source: root.join("package"),
            check: format!(
                "{path}; code=0; for test in test/*.js; do node $test || code=1; done; exit $code"
            ),
            failures: format!(
                "{path}; for test in test/*.js; do node $test | grep '^not ok' | sed \"s|^|$test |\"; done; true"
            ),
        })
    }

    fn unpack(&self, root: &Path, archive: &str) -> Result<(), String> {
        let mut tar = support::command("tar");
        tar.args(["--extract", "--gzip", "--no-same-owner", "--file", archive])
            .current_dir(root);
        support::must(&mut tar, DEADLINE).map(|_| ())
    }

    /// The file with both breaks, and with the second alone.
    pub(super) fn broken(&self, original: &str) -> Result<[String; 2], String> {
        let [first, second] = self.breaks;
        let half = break_once(original, second)?;
        Ok([break_once(&half, first)?, half])
    }
}

fn break_once(text: &str, (whole, broken): (&str, &str)) -> Result<String, String> {
    match text.matches(whole).count() {
        1 => Ok(text.replacen(whole, broken, 1)),
        count => Err(format!("{whole:?} is there {count} times, not once")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_where_it_stands_once_and_refused_elsewhere() {
        assert_eq!(break_once("a b", ("b", "c")), Ok("a c".to_owned()));
        assert!(break_once("b b", ("b", "c")).is_err());
        assert!(break_once("a", ("b", "c")).is_err());
    }

    #[test]
    fn three_registries_are_covered_each_with_a_pinned_version() {
        assert_eq!(PACKAGES.len(), 3);
        assert!(
            PACKAGES
                .iter()
                .all(|package| package.version.split('.').count() == 3)
        );
    }
}

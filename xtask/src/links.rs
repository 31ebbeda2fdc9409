//! Links between pages: a relative link names a file that is there, and a heading that is in it.
//!
//! Must not look at links to other places: whether those answer is not a property of this source.

use crate::{markdown, sources::Sources};

/// Every link that leads nowhere.
pub(crate) fn findings(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| path.ends_with(".md")) {
        for paragraph in markdown::paragraphs(text) {
            for target in targets(&paragraph.text) {
                if !leads_somewhere(path, target, sources) {
                    findings.push(format!(
                        "{path}:{}: the link to {target} leads nowhere",
                        paragraph.line
                    ));
                }
            }
        }
    }
    findings
}

/// What the links of a text point at.
fn targets(text: &str) -> Vec<&str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

fn leads_somewhere(page: &str, target: &str, sources: &Sources) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(page, file) else {
        return false;
    };
    match sources.get(&path) {
        Some(_) if heading.is_empty() => true,
        Some(text) => text
            .lines()
            .any(|line| anchor(line).as_deref() == Some(heading)),
        None => heading.is_empty() && is_directory(&path, sources),
    }
}

fn is_directory(path: &str, sources: &Sources) -> bool {
    let inside = format!("{}/", path.trim_end_matches('/'));
    sources.keys().any(|file| file.starts_with(&inside))
}

/// The path from the root that a link on a page means.
fn resolve(page: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

/// The anchor that a heading gets: lower case, blanks to hyphens, nothing but letters, digits, hyphens, underscores.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let letters = heading.to_lowercase();
    Some(
        letters
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(link: &str) -> usize {
        let sources = Sources::from([
            (
                "docs/guides/a.md".to_owned(),
                format!("See [it]({link}).\n"),
            ),
            ("README.md".to_owned(), "# The `name`\n".to_owned()),
        ]);
        findings(&sources).len()
    }

    #[test]
    fn a_link_names_a_file_and_a_heading_that_are_there() {
        for good in [
            "../../README.md",
            "../../README.md#the-name",
            "a.md",
            "../guides",
            "https://example.org/x",
        ] {
            assert_eq!(with(good), 0, "{good}");
        }
        for bad in [
            "README.md",
            "../../README.md#other",
            "../../../../README.md",
            "b.md",
        ] {
            assert_eq!(with(bad), 1, "{bad}");
        }
    }
}

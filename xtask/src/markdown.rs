//! The little of Markdown that the tasks need: fences, paragraphs, generated regions.
//!
//! Must not know what a page is about.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// What stands behind the opening fence.
    pub(crate) info: String,
    /// The lines between.
    pub(crate) body: String,
    /// Line of the opening fence, from 1.
    pub(crate) line: usize,
}

/// Every fenced block of a page.
pub(crate) fn fences(text: &str) -> Vec<Fence> {
    let mut all = Vec::new();
    let mut open: Option<Fence> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => {
                open = Some(Fence {
                    info: info.trim().to_owned(),
                    body: String::new(),
                    line: number,
                });
            }
            (Some(_), Some(_)) => all.extend(open.take()),
            (Some(block), None) => {
                block.body.push_str(line);
                block.body.push('\n');
            }
            (None, None) => {}
        }
    }
    all.extend(open);
    all
}

/// A paragraph, list item or table row with the heading it stands under.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Paragraph {
    /// The nearest heading above.
    pub(crate) heading: String,
    /// Its text on one line.
    pub(crate) text: String,
    /// Its first line, from 1.
    pub(crate) line: usize,
}

/// The paragraphs outside of fences.
pub(crate) fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let (mut heading, mut fenced, mut running) = (String::new(), false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            fenced = !fenced;
            running = false;
            continue;
        }
        if fenced || trimmed.is_empty() {
            running = false;
            continue;
        }
        if trimmed.starts_with('#') {
            heading = trimmed.trim_start_matches('#').trim().to_owned();
            running = false;
            continue;
        }
        let starts = ["- ", "* ", "|"]
            .iter()
            .any(|mark| trimmed.starts_with(mark));
        match all.last_mut() {
            Some(last) if running && !starts => {
                last.text.push(' ');
                last.text.push_str(trimmed);
            }
            _ => all.push(Paragraph {
                heading: heading.clone(),
                text: trimmed.to_owned(),
                line: number,
            }),
        }
        running = true;
    }
    all
}

/// Puts generated text between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.
///
/// # Errors
/// When a region has no end, or its name is unknown to `generate`.
pub(crate) fn regenerate(
    text: &str,
    generate: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut region: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let Some(name) = region {
            if trimmed == format!("<!-- end: {name} -->") {
                result.push_str(line);
                region = None;
            }
            continue;
        }
        result.push_str(line);
        let name = trimmed
            .strip_prefix("<!-- generated: ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(name) = name {
            let body = generate(name).ok_or_else(|| format!("nothing generates {name:?}"))?;
            result.push('\n');
            result.push_str(body.trim_end());
            result.push_str("\n\n");
            region = Some(name);
        }
    }
    region.map_or(Ok(result), |name| {
        Err(format!("the region {name:?} has no end"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_have_their_info_and_line() {
        let found = fences("a\n```sh test\necho\n```\n```\nx\n```\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].info, "sh test");
        assert_eq!(found[0].body, "echo\n");
        assert_eq!((found[0].line, found[1].line), (2, 5));
    }

    #[test]
    fn paragraphs_know_their_heading_and_rows_stand_alone() {
        let found = paragraphs("# A\none\ntwo\n\n- x\n- y\n```\nno\n```\n## B\nz\n");
        let texts: Vec<(&str, &str)> = found
            .iter()
            .map(|each| (each.heading.as_str(), each.text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [("A", "one two"), ("A", "- x"), ("A", "- y"), ("B", "z")]
        );
    }

    #[test]
    fn a_region_is_replaced_and_an_open_or_unknown_one_refused() {
        let page = "a\n<!-- generated: t -->\nold\n<!-- end: t -->\nb\n";
        let made = regenerate(page, &|name| (name == "t").then(|| "new\n".to_owned()));
        let expected = "a\n<!-- generated: t -->\n\nnew\n\n<!-- end: t -->\nb\n";
        assert_eq!(made.as_deref(), Ok(expected));
        assert_eq!(
            regenerate(expected, &|_| Some("new".to_owned())).as_deref(),
            Ok(expected)
        );
        assert!(regenerate(page, &|_| None).is_err());
        assert!(regenerate("<!-- generated: t -->\n", &|_| Some(String::new())).is_err());
    }
}

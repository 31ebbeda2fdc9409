//! The shape of the source: lengths, module docs, what must not be left in it.
//!
//! What clippy can see is clippy's; this looks at what it cannot. Must not parse more than Rust syntax.

use syn::visit::Visit;

use crate::sources::Sources;

/// Longest file: beyond it nobody reads to the end.
const FILE_LINES_MAX: usize = 600;

/// Longest function, signature included. The style aims at 70; signatures and closing lines are the slack.
const FUNCTION_LINES_MAX: usize = 80;

/// Files that may be longer, up to a length, and why.
const LONGER: &[(&str, usize, &str)] = &[];

/// Texts that must not be left in source, each in two pieces so that this file does not have them.
const LEFT_BEHIND: &[(&str, &str, &str)] = &[
    ("todo", "!(", "unfinished work"),
    ("unimplemented", "!(", "unfinished work"),
    ("dbg", "!(", "a look that was left in"),
    ("#[ign", "ore", "a test that does not run"),
    ("#[should_", "panic", "a test that any panic satisfies"),
    ("#[all", "ow(", "use #[expect(lint, reason = ...)]"),
    ("#![all", "ow(", "use #![expect(lint, reason = ...)]"),
];

/// Everything untidy in Rust files.
pub(crate) fn findings(sources: &Sources) -> Vec<String> {
    sources
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .flat_map(|(path, text)| file(path, text))
        .collect()
}

fn file(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let limit = LONGER
        .iter()
        .find(|(longer, _, _)| *longer == path)
        .map_or(FILE_LINES_MAX, |(_, limit, _)| *limit);
    if lines > limit {
        findings.push(format!("{path}: {lines} lines, the limit is {limit}"));
    }
    if !text.starts_with("//!") {
        findings.push(format!("{path}: does not begin with `//!`"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        for (head, tail, why) in LEFT_BEHIND {
            if line.contains(&format!("{head}{tail}")) {
                findings.push(format!("{path}:{number}: `{head}{tail}`: {why}"));
            }
        }
    }
    match syn::parse_file(text) {
        Ok(parsed) => {
            let mut functions = Functions::default();
            functions.visit_file(&parsed);
            findings.extend(functions.long.into_iter().map(|(line, name, lines)| {
                format!(
                    "{path}:{line}: fn {name} has {lines} lines, the limit is {FUNCTION_LINES_MAX}"
                )
            }));
        }
        Err(error) => findings.push(format!("{path}: is not Rust that can be read: {error}")),
    }
    findings
}

/// Functions that are too long: line, name, lines.
#[derive(Default)]
struct Functions {
    long: Vec<(usize, String, usize)>,
}

impl Functions {
    fn look(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        let lines = last.saturating_sub(first).saturating_add(1);
        if lines > FUNCTION_LINES_MAX {
            self.long.push((first, signature.ident.to_string(), lines));
        }
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.look(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.look(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.look(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!(
            "//! Doc.\nfn f() {{\n{}}}\n",
            "    g();\n".repeat(lines.saturating_sub(2))
        )
    }

    #[test]
    fn a_function_at_the_limit_passes_and_one_line_more_does_not() {
        assert!(file("a.rs", &function(FUNCTION_LINES_MAX)).is_empty());
        assert_eq!(file("a.rs", &function(FUNCTION_LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn a_file_at_the_limit_passes_and_one_line_more_does_not() {
        let lines = |count: usize| "//! Doc.\n".repeat(count);
        assert!(file("a.rs", &lines(FILE_LINES_MAX)).is_empty());
        assert_eq!(file("a.rs", &lines(FILE_LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn missing_module_docs_and_what_was_left_behind_are_found() {
        assert_eq!(file("a.rs", "fn f() {}\n").len(), 1);
        for (head, tail, _) in LEFT_BEHIND {
            let text = format!("//! Doc.\n// {head}{tail}\n");
            assert_eq!(file("a.rs", &text).len(), 1, "{head}{tail}");
        }
        assert_eq!(file("a.rs", "//! Doc.\nfn {\n").len(), 1);
    }
}

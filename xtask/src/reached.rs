//! Rust files that no `mod` reaches: tests that look written and never run.
//!
//! Must not know what is in a file beside its `mod` items.

use std::collections::BTreeSet;

use crate::sources::Sources;

/// Files of a package that cargo compiles by their place.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [.., "src", "main.rs" | "lib.rs"] => true,
        [.., "src", "bin", file] => file.ends_with(".rs"),
        [.., "tests" | "benches" | "examples" | "fuzz_targets", file] => {
            file.ends_with(".rs") && !path.contains("/src/")
        }
        [.., "tests" | "benches" | "examples", _, "main.rs"] => !path.contains("/src/"),
        [.., "build.rs"] => !path.contains("/src/"),
        _ => false,
    }
}

/// Every file that nothing reaches.
///
/// # Errors
/// When a file cannot be parsed.
pub(crate) fn findings(sources: &Sources) -> Result<Vec<String>, String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<String> = sources
        .keys()
        .filter(|path| is_root(path))
        .cloned()
        .collect();
    while let Some(path) = open.pop() {
        let Some(text) = sources.get(&path) else {
            continue;
        };
        if !reached.insert(path.clone()) {
            continue;
        }
        let parsed = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        below(&parsed.items, &directory(&path), sources, &mut open);
    }
    Ok(sources
        .keys()
        .filter(|path| path.ends_with(".rs") && !reached.contains(*path))
        .map(|path| format!("{path}: no `mod` reaches it"))
        .collect())
}

/// Where the modules of a file are.
fn directory(path: &str) -> String {
    let (parent, file) = path.rsplit_once('/').unwrap_or(("", path));
    if is_root(path) || file == "mod.rs" {
        return parent.to_owned();
    }
    format!("{parent}/{}", file.trim_end_matches(".rs"))
}

fn below(items: &[syn::Item], directory: &str, sources: &Sources, open: &mut Vec<String>) {
    for item in items {
        let syn::Item::Mod(module) = item else {
            continue;
        };
        let name = module.ident.to_string();
        if let Some((_, items)) = &module.content {
            below(items, &format!("{directory}/{name}"), sources, open);
            continue;
        }
        let named = path_attribute(&module.attrs);
        let candidates = match named {
            Some(path) => vec![format!("{directory}/{path}")],
            None => vec![
                format!("{directory}/{name}.rs"),
                format!("{directory}/{name}/mod.rs"),
            ],
        };
        open.extend(
            candidates
                .into_iter()
                .filter(|path| sources.contains_key(path)),
        );
    }
}

/// The value of `#[path = "..."]`.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let syn::Expr::Lit(literal) = &pair.value else {
            return None;
        };
        if let syn::Lit::Str(text) = &literal.lit
            && pair.path.is_ident("path")
        {
            return Some(text.value());
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn a_test_file_without_mod_is_found() {
        let files = [
            ("c/tests/c/main.rs", "mod a;"),
            ("c/tests/c/a.rs", ""),
            ("c/tests/c/forgotten.rs", ""),
        ];
        let found = findings(&sources(&files)).unwrap_or_default();
        assert_eq!(found, ["c/tests/c/forgotten.rs: no `mod` reaches it"]);
    }

    #[test]
    fn modules_are_found_in_all_their_places() {
        let files = [
            (
                "c/src/lib.rs",
                "mod a; mod b; mod inline { mod d; } #[path = \"x.rs\"] mod y;",
            ),
            ("c/src/a.rs", "#[cfg(test)] mod tests;"),
            ("c/src/a/tests.rs", ""),
            ("c/src/b/mod.rs", "mod c;"),
            ("c/src/b/c.rs", ""),
            ("c/src/inline/d.rs", ""),
            ("c/src/x.rs", ""),
            ("c/benches/speed.rs", ""),
        ];
        assert_eq!(findings(&sources(&files)), Ok(Vec::new()));
    }
}

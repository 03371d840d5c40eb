//! The module tree of a crate, and the names that each file takes from others.
//!
//! Parsed from the sources with `syn`; macro bodies are not inspected. Tests (`#[cfg(test)]`) and re-exports
//! (`pub use`) are left out: a name taken through a re-export counts as taken from its home.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::Visit;

/// Maximum number of re-exports followed, so that two that name each other terminate.
const MOST_STEPS: usize = 16;

/// A path as it is written: `crate`, `state`, `State`.
pub(super) type Words = Vec<String>;

/// Content of one module.
struct Module {
    file: usize,
    /// Imported paths, by their local names.
    imports: BTreeMap<String, Words>,
    /// Every path written in it.
    used: Vec<Words>,
}

/// A name that one module takes from another.
pub(super) struct Taken {
    /// The importing module, as a path below the crate.
    pub(super) from: Words,
    /// The module that defines the name.
    pub(super) to: Words,
    /// The files of both.
    pub(super) files: [PathBuf; 2],
    pub(super) name: String,
}

/// The modules of a crate.
pub(super) struct Modules {
    files: Vec<PathBuf>,
    by_path: BTreeMap<Words, Module>,
}

impl Modules {
    /// Reads a crate from its root file.
    ///
    /// # Errors
    /// A file is missing or is not valid Rust.
    pub(super) fn read(root: &Path) -> Result<Modules> {
        let mut modules = Modules { files: vec![], by_path: BTreeMap::new() };
        let folder = root.parent().unwrap_or(root).to_owned();
        modules.read_file(root, &folder, vec![])?;
        Ok(modules)
    }

    /// `below` is the folder that contains the files of its submodules.
    fn read_file(&mut self, path: &Path, below: &Path, at: Words) -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parse {}", path.display()))?;
        self.files.push(path.to_owned());
        let file = self.files.len() - 1;
        self.read_items(&parsed.items, file, below, at)
    }

    fn read_items(
        &mut self,
        items: &[syn::Item],
        file: usize,
        below: &Path,
        at: Words,
    ) -> Result<()> {
        let mut module = Module { file, imports: BTreeMap::new(), used: vec![] };
        for item in items {
            match item {
                syn::Item::Mod(inner) if is_test(&inner.attrs) => {}
                syn::Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let mut at = at.clone();
                    at.push(name.clone());
                    match &inner.content {
                        Some((_, items)) => self.read_items(items, file, &below.join(&name), at)?,
                        None => {
                            let (path, below) = self.file_of(inner, file, below, &name);
                            self.read_file(&path, &below, at)?;
                        }
                    }
                }
                syn::Item::Use(import) => {
                    let passes_on = !matches!(import.vis, syn::Visibility::Inherited);
                    expand(&import.tree, &mut vec![], passes_on, &mut module);
                }
                other => Paths(&mut module.used).visit_item(other),
            }
        }
        self.by_path.insert(at, module);
        Ok(())
    }

    fn file_of(
        &self,
        inner: &syn::ItemMod,
        file: usize,
        below: &Path,
        name: &str,
    ) -> (PathBuf, PathBuf) {
        if let Some(given) = inner.attrs.iter().find_map(given_path) {
            let path = self.files[file].parent().unwrap_or(below).join(given);
            let below = path.parent().unwrap_or(below).to_owned();
            return (path, below);
        }
        let folder = below.join(name);
        let one = below.join(format!("{name}.rs"));
        (if one.exists() { one } else { folder.join("mod.rs") }, folder)
    }

    /// Every name that a module takes from another.
    pub(super) fn taken(&self) -> Vec<Taken> {
        let mut all = vec![];
        for (at, module) in &self.by_path {
            for words in &module.used {
                let Some((home, name)) = self.home(at, words, MOST_STEPS) else { continue };
                let files = [module.file, self.by_path[&home].file];
                if files[0] != files[1] {
                    let files = files.map(|file| self.files[file].clone());
                    all.push(Taken { from: at.clone(), to: home, files, name });
                }
            }
        }
        all
    }

    /// The module that defines the item with this path, and its name; `None` if that is in another crate.
    fn home(&self, from: &[String], words: &[String], steps: usize) -> Option<(Words, String)> {
        let steps = steps.checked_sub(1)?;
        let (mut at, mut rest) = self.start(from, words, steps)?;
        while let Some((first, others)) = rest.split_first() {
            let mut deeper = at.clone();
            deeper.push(first.clone());
            if self.by_path.contains_key(&deeper) {
                (at, rest) = (deeper, others);
                continue;
            }
            let module = self.by_path.get(&at)?;
            if let Some(import) = module.imports.get(first) {
                let whole: Words = import.iter().chain(others).cloned().collect();
                return self.home(&at, &whole, steps);
            }
            return Some((at, first.clone()));
        }
        let name = at.last().cloned().unwrap_or_else(|| "crate".into());
        Some((at, name))
    }

    /// The module in which a path begins, and the rest of the path.
    fn start<'w>(
        &self,
        from: &[String],
        words: &'w [String],
        steps: usize,
    ) -> Option<(Words, &'w [String])> {
        let (first, rest) = words.split_first()?;
        match first.as_str() {
            "crate" => Some((vec![], rest)),
            "self" => Some((from.to_vec(), rest)),
            "super" => {
                let mut at = from.to_vec();
                at.pop()?;
                // `super::super::x`.
                match rest.first().map(String::as_str) {
                    Some("super") => self.start(&at, rest, steps),
                    _ => Some((at, rest)),
                }
            }
            name => {
                let mut child = from.to_vec();
                child.push(name.to_owned());
                if self.by_path.contains_key(&child) {
                    return Some((child, rest));
                }
                let import = self.by_path.get(from)?.imports.get(name)?;
                // An imported module: continue there.
                let (at, left) = (steps > 0).then(|| self.start(from, import, steps - 1))??;
                let mut at = at;
                at.extend(left.iter().cloned());
                self.by_path.contains_key(&at).then_some((at, rest))
            }
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let test = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(test)
}

/// `#[path = "..."]`.
fn given_path(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
        return None;
    };
    pair.path.is_ident("path").then(|| text.value())
}

/// Every path of a tree of imports.
fn expand(tree: &syn::UseTree, before: &mut Words, passes_on: bool, module: &mut Module) {
    let mut named = |name: String, here: String, before: &Words| {
        let mut words = before.clone();
        if name != "self" {
            words.push(name);
        }
        if !passes_on {
            module.used.push(words.clone());
        }
        module.imports.insert(here, words);
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            expand(&path.tree, before, passes_on, module);
            before.pop();
        }
        syn::UseTree::Name(name) => {
            let name = name.ident.to_string();
            let here = if name == "self" { before.last().cloned() } else { None };
            named(name.clone(), here.unwrap_or(name), before);
        }
        syn::UseTree::Rename(to) => named(to.ident.to_string(), to.rename.to_string(), before),
        syn::UseTree::Glob(_) => {
            if !passes_on {
                module.used.push(before.clone());
            }
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                expand(tree, before, passes_on, module);
            }
        }
    }
}

/// Collects multi-part paths of expressions, types and patterns.
struct Paths<'m>(&'m mut Vec<Words>);

impl<'a> Visit<'a> for Paths<'_> {
    fn visit_path(&mut self, path: &'a syn::Path) {
        // A path that begins with `::` is another crate's.
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.0.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, inner: &'a syn::ItemMod) {
        if !is_test(&inner.attrs) {
            syn::visit::visit_item_mod(self, inner);
        }
    }
}

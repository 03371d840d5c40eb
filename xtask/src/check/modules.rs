//! The modules of a crate as a tree, and which file takes names from which.
//!
//! Read with `syn` from the sources; macros' bodies are not looked into. Tests (`#[cfg(test)]`) are left out, and
//! so is what a file only passes on (`pub use`): whoever takes it from there is said to take it from its home.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::Visit;

/// Re-exports followed at most, so that two which name each other end.
const MOST_STEPS: usize = 16;

/// A path as it is written: `crate`, `state`, `State`.
pub(super) type Words = Vec<String>;

/// What one module is made of.
struct Module {
    file: usize,
    /// By the name that it has here, what an import brings in.
    imports: BTreeMap<String, Words>,
    /// What it uses, by every path that is written in it.
    used: Vec<Words>,
}

/// A name that one module takes from another.
pub(super) struct Taken {
    /// The module that takes it, as a path below the crate.
    pub(super) from: Words,
    /// The module that has it.
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
    /// A file that is not there or is no Rust.
    pub(super) fn read(root: &Path) -> Result<Modules> {
        let mut modules = Modules { files: vec![], by_path: BTreeMap::new() };
        let folder = root.parent().unwrap_or(root).to_owned();
        modules.read_file(root, &folder, vec![])?;
        Ok(modules)
    }

    /// `below` is the folder in which the files of its modules are.
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

    /// Every name that a module takes from another one.
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

    /// The module in which the thing with this path is defined, and its name; `None` where that is another crate.
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

    /// The module that a path begins in, and what is left of the path.
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
                // A module that was imported: go on in it.
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

/// Collects the paths of expressions, types and patterns that have several parts.
struct Paths<'m>(&'m mut Vec<Words>);

impl<'a> Visit<'a> for Paths<'_> {
    fn visit_path(&mut self, path: &'a syn::Path) {
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

//! Import cycles between modules: imports go one way, so that a module can be read after those it builds on.
//!
//! Sibling modules are compared, each with everything inside it: two siblings must not depend on each other.
//! A module and its own submodules count as one and may use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::modules::{Modules, Taken, Words};

/// For the sibling modules in one place, by name: the siblings that each imports names from.
type Neighbours<'t> = BTreeMap<&'t str, BTreeMap<&'t str, Vec<&'t Taken>>>;

/// Complaints about cycles in the crate with this root file; names are relative to `root`.
pub(super) fn check(root: &Path, crate_root: &Path) -> Result<Vec<String>> {
    let taken = Modules::read(crate_root)?.taken();
    let mut places: BTreeMap<&[String], Neighbours<'_>> = BTreeMap::new();
    for one in &taken {
        if let Some((place, from, to)) = side_by_side(&one.from, &one.to) {
            let neighbours = places.entry(place).or_default();
            neighbours.entry(from).or_default().entry(to).or_default().push(one);
        }
    }
    let all = places.values();
    Ok(all.flat_map(|of| circles(of).into_iter().map(|circle| told(root, &circle, of))).collect())
}

/// The innermost module that contains both, and which of its submodules each is in.
fn side_by_side<'t>(from: &'t Words, to: &'t Words) -> Option<(&'t [String], &'t str, &'t str)> {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    Some((&from[..common], from.get(common)?, to.get(common)?))
}

fn told(root: &Path, circle: &[&str], neighbours: &Neighbours<'_>) -> String {
    let mut text = format!("modules import each other in a circle: {}", circle.join(", "));
    for from in circle {
        for (to, all) in neighbours.get(from).into_iter().flatten() {
            if !circle.contains(to) {
                continue;
            }
            let mut files: BTreeMap<[String; 2], BTreeSet<&str>> = BTreeMap::new();
            for one in all {
                let short =
                    |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
                files.entry([0, 1].map(|at| short(&one.files[at]))).or_default().insert(&one.name);
            }
            for ([from, to], names) in files {
                let names = names.into_iter().collect::<Vec<_>>().join(", ");
                text += &format!("\n  {from} -> {to}: {names}");
            }
        }
    }
    text
}

/// Sets of two or more modules that all depend on each other (strongly connected components).
fn circles<'t>(neighbours: &Neighbours<'t>) -> Vec<Vec<&'t str>> {
    let reach: BTreeMap<&'t str, BTreeSet<&'t str>> =
        neighbours.keys().map(|from| (*from, reached(neighbours, from))).collect();
    let mut found: Vec<Vec<&str>> = vec![];
    for (module, leads_to) in &reach {
        if found.iter().any(|circle| circle.contains(module)) {
            continue;
        }
        let back = |to: &&&str| reach.get(**to).is_some_and(|of| of.contains(module));
        // A module that only uses a circle is reached by none of it.
        let circle: Vec<&str> = leads_to.iter().filter(back).copied().collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

/// The modules that a module depends on, directly or indirectly.
fn reached<'t>(neighbours: &Neighbours<'t>, from: &'t str) -> BTreeSet<&'t str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let next = neighbours.get(at).into_iter().flat_map(BTreeMap::keys);
        open.extend(next.filter(|to| found.insert(**to)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        check(folder.path(), &folder.path().join("lib.rs")).unwrap()
    }

    #[test]
    fn a_circle_is_found_by_imports_and_by_paths() {
        let wrong = crate_of(&[
            ("lib.rs", "mod low; mod high; mod other;"),
            ("low.rs", "use crate::high::Top; pub struct Base;"),
            ("high.rs", "pub struct Top; fn f() { let _ = crate::other::deep::Deep; }"),
            ("other.rs", "pub mod deep;"),
            ("other/deep.rs", "use super::super::low::{self, Base as B}; pub struct Deep;"),
        ]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("circle: high, low, other"), "{}", wrong[0]);
        assert!(wrong[0].contains("low.rs -> high.rs: Top"), "{}", wrong[0]);
        assert!(wrong[0].contains("high.rs -> other/deep.rs: Deep"), "{}", wrong[0]);
        assert!(wrong[0].contains("other/deep.rs -> low.rs: Base, low"), "{}", wrong[0]);
    }

    #[test]
    fn what_is_passed_on_is_taken_from_its_home() {
        let files = [
            ("lib.rs", "mod error; mod part; pub use error::Error; pub use part::run;"),
            ("error.rs", "pub struct Error;"),
            ("part/mod.rs", "use crate::Error; mod leaf; pub use self::leaf::run;"),
            ("part/leaf.rs", "use crate::Error; pub fn run() {}"),
        ];
        assert_eq!(crate_of(&files), Vec::<String>::new());
    }

    #[test]
    fn a_module_and_what_is_in_it_are_one_room_and_neighbours_in_it_are_not() {
        let files = [
            ("lib.rs", "mod room;"),
            ("room.rs", "mod left; mod right; pub struct Of; fn f() { left::L; right::R; }"),
            ("room/left.rs", "use super::Of; pub struct L;"),
            ("room/right.rs", "use super::{Of, left::L}; pub struct R;"),
        ];
        assert_eq!(crate_of(&files), Vec::<String>::new());
        let mut files = files;
        files[2].1 = "use super::right::R; pub struct L;";
        assert!(crate_of(&files)[0].contains("circle: left, right"));
    }

    #[test]
    fn tests_may_use_what_they_test() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { fn f() { crate::a::g(); } }"),
        ];
        assert_eq!(crate_of(&files), Vec::<String>::new());
    }
}

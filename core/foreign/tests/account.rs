//! No item of a file is dropped silently: whatever is added to a lab that no reader knows turns up as left out.

use netloom_config::{Kind, Node};
use netloom_foreign::{Memory, Verdict};

use super::labs::{LABS, files, imported};

#[test]
fn every_lab_can_be_imported() {
    for (folder, main) in LABS {
        let import = imported(&files(folder), main);
        assert!(!import.items.is_empty(), "{main}");
        if std::env::var_os("SHOW").is_some() {
            println!("=== {main}\n{}", import.lab);
            import.items.iter().for_each(|item| println!("{item}"));
        }
    }
}

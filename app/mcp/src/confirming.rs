//! Confirmation of what removes something: the first call answers what would be done, with a word; the second one brings the
//! word back. A word is good once, for the same tool with the same arguments and the same plan, so that a plan that is no
//! longer true is shown again instead of being done.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// The argument that brings the word.
pub(crate) const CONFIRM: &str = "confirm";

/// Words that wait; more push out any other. Agents confirm one at a time.
const MOST: usize = 64;

/// Words that were given, with what each is for.
#[derive(Debug, Default)]
pub(crate) struct Words {
    given: Mutex<HashMap<String, String>>,
    state: RandomState,
}

impl Words {
    /// Whether the call may be done; otherwise the answer that shows the plan.
    pub(crate) fn check(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        plan: &Value,
    ) -> std::result::Result<(), Value> {
        let mut what = arguments.clone();
        let word = what.remove(CONFIRM);
        let what = format!("{tool} {} {plan}", Value::Object(what));
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Value::String(word)) = &word
            && given.get(word) == Some(&what)
        {
            given.remove(word);
            return Ok(());
        }
        let word = format!("{:016x}", self.state.hash_one((&what, given.len())));
        if given.len() >= MOST {
            given.clear();
        }
        given.insert(word.clone(), what);
        let next = "nothing is done yet; to do it, call the same tool with the same arguments and this `confirm`";
        Err(json!({"would": plan, "confirm": word, "next": next}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(word: Option<&str>) -> Map<String, Value> {
        let mut all = Map::new();
        all.insert("node".to_owned(), json!("h1"));
        if let Some(word) = word {
            all.insert(CONFIRM.to_owned(), json!(word));
        }
        all
    }

    #[test]
    fn a_word_is_good_once_and_for_its_plan_only() {
        let words = Words::default();
        let plan = json!({"node": "h1"});
        let shown = words.check("delete_node", &arguments(None), &plan).unwrap_err();
        assert_eq!(shown["would"], plan);
        let word = shown["confirm"].as_str().unwrap();
        // Another plan, another tool, a made-up word: the plan is shown again.
        assert!(
            words.check("delete_node", &arguments(Some(word)), &json!({"node": "h2"})).is_err()
        );
        assert!(words.check("delete_link", &arguments(Some(word)), &plan).is_err());
        assert!(words.check("delete_node", &arguments(Some("yes")), &plan).is_err());
        assert!(words.check("delete_node", &arguments(Some(word)), &plan).is_ok());
        assert!(words.check("delete_node", &arguments(Some(word)), &plan).is_err(), "used before");
    }

    #[test]
    fn words_that_are_never_brought_back_are_bounded() {
        let words = Words::default();
        for n in 0..1000 {
            assert!(words.check("down", &arguments(None), &json!(n)).is_err());
        }
        assert!(words.given.lock().unwrap().len() <= MOST);
    }
}

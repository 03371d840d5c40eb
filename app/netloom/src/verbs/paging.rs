//! Lists by pages: what is asked of the lab, and how to read on. What is not shown is not asked for.

use anyhow::Result;
use netloom_api::Error;
use netloom_lab::values::Objects;

use crate::flags::Listing;

/// Objects of a page, where nothing else is said.
pub(super) const USUAL: u64 = 200;

/// The objects that are to be listed, and whether others follow. `ask` asks for a number of them after a name.
pub(super) fn listed<T>(
    args: &Listing,
    ask: impl Fn(Option<&str>, u64) -> netloom_api::Result<Vec<T>>,
) -> Result<(Vec<T>, bool)> {
    let after = args.after.as_deref();
    let Some(limit) = limit(args) else { return Ok((ask(after, Objects::DEFAULT)?, false)) };
    // One more tells whether others follow.
    let mut found = or_whole(args, ask(after, limit + 1), || ask(None, Objects::DEFAULT))?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > most;
    found.truncate(most);
    Ok((found, more))
}

/// The most objects; `None`: all.
pub(super) fn limit(args: &Listing) -> Option<u64> {
    match args.limit {
        None if args.all || args.json => None,
        None => Some(USUAL),
        limit => limit,
    }
}

/// The answer; that to `whole` where nobody asked for a page, and the lab process is of a version that knows none.
pub(super) fn or_whole<T>(
    args: &Listing,
    page: netloom_api::Result<T>,
    whole: impl FnOnce() -> netloom_api::Result<T>,
) -> netloom_api::Result<T> {
    match page {
        Err(Error::Refused { status: 400, .. }) if args.limit.is_none() && args.after.is_none() => {
            whole()
        }
        page => page,
    }
}

/// Says how to see what follows.
pub(super) fn tell_more(more: bool, last: Option<&str>) {
    if let (true, Some(last)) = (more, last) {
        tell_line!("netloom: more follow: write --after {last}, or --all for all of them");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn args(limit: Option<u64>, all: bool, json: bool) -> Listing {
        Listing { json, limit, after: None, all }
    }

    /// What is listed of 1,000 numbers, and what was asked for.
    fn of_many(args: &Listing) -> (usize, bool, Vec<u64>) {
        let asked = RefCell::new(vec![]);
        let ask = |_: Option<&str>, limit: u64| {
            asked.borrow_mut().push(limit);
            Ok((0..1000).take(usize::try_from(limit).unwrap()).collect::<Vec<u32>>())
        };
        let (found, more) = listed(args, ask).unwrap();
        (found.len(), more, asked.into_inner())
    }

    #[test]
    fn no_more_is_asked_for_than_is_shown() {
        assert_eq!(of_many(&args(None, false, false)), (200, true, vec![201]));
        assert_eq!(of_many(&args(Some(999), false, false)), (999, true, vec![1000]));
        assert_eq!(of_many(&args(Some(1000), false, true)), (1000, false, vec![1001]));
        assert_eq!(of_many(&args(None, true, false)), (1000, false, vec![Objects::DEFAULT]));
        assert_eq!(of_many(&args(None, false, true)), (1000, false, vec![Objects::DEFAULT]));
    }

    #[test]
    fn a_lab_process_without_pages_is_asked_for_all_unless_a_page_was_wanted() {
        let ask = |_: Option<&str>, limit: u64| match limit {
            Objects::DEFAULT => Ok((0..300).collect::<Vec<u32>>()),
            _ => Err(Error::Refused { status: 400, error: "limit: is not known here".into() }),
        };
        let (found, more) = listed(&args(None, false, false), ask).unwrap();
        assert_eq!((found.len(), more), (200, true));
        assert!(listed(&args(Some(5), false, false), ask).is_err());
    }
}

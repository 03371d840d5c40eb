//! An earlier placement, of the same lab before its file changed.

use std::collections::HashMap;

use crate::account::Account;
use crate::error::Error;

/// Where nodes and switches were, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The host of each node, and of each switch's first piece.
    pub hosts: HashMap<String, String>,
}

impl Earlier {
    /// Reads what `netloom check --on --json` printed. `file` is its name for messages.
    ///
    /// # Errors
    /// [`Error::Earlier`] if it is something else, or of another lab.
    pub fn read(file: &str, bytes: &[u8], lab: &str) -> Result<Earlier, Error> {
        let account: Account = netloom_form::read(bytes).map_err(|problem| {
            Error::Earlier(format!(
                "{file}: {problem}; an earlier placement is what `netloom check --on --json` printed"
            ))
        })?;
        if account.lab != lab {
            return Err(Error::Earlier(format!(
                "{file}: this is a placement of lab {:?}, not of {lab:?}",
                account.lab
            )));
        }
        Ok(Earlier::of(&account))
    }

    /// The placement of an account.
    pub fn of(account: &Account) -> Earlier {
        let nodes = account.nodes.iter().map(|(name, host)| (name.clone(), host.clone()));
        let first =
            |(name, hosts): (&String, &Vec<String>)| Some((name.clone(), hosts.first()?.clone()));
        Earlier { hosts: nodes.chain(account.switches.iter().filter_map(first)).collect() }
    }
}

//! Calls to a lab by their name: found among all, read from arguments, asked, answered as JSON.

use netloom_api::Client;
use netloom_lab::call::{Answers, Call, Each};
use netloom_lab::{Service, calls};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::{Error, Result};

/// Asks the call of this name.
///
/// # Errors
/// An argument cannot be used, or the lab refuses.
pub(crate) fn ask(name: &str, arguments: &Arguments, client: &Client) -> Result<Value> {
    let mut asked = Asked { name, arguments, client: Some(client), answer: None };
    calls::each(&mut asked);
    asked.answer.unwrap_or_else(|| Err(Error::Refused(format!("tool {name:?}: no such call"))))
}

/// Reads the arguments of a call without asking it.
///
/// # Errors
/// An argument cannot be used.
pub(crate) fn check(name: &str, arguments: &Arguments) -> Result<()> {
    let mut asked = Asked { name, arguments, client: None, answer: None };
    calls::each(&mut asked);
    asked.answer.unwrap_or(Ok(Value::Null)).map(drop)
}

struct Asked<'a> {
    name: &'a str,
    arguments: &'a Arguments,
    /// Without one, values are only read.
    client: Option<&'a Client>,
    answer: Option<Result<Value>>,
}

impl Asked<'_> {
    fn asked<C: Call>(&self) -> Result<Value> {
        let call = C::read(self.arguments)?;
        let Some(client) = self.client else { return Ok(Value::Null) };
        let answer = client.call(&call)?;
        netloom_form::to_value(&answer).map_err(|e| Error::Refused(format!("answer: {e}")))
    }
}

impl Each for Asked<'_> {
    fn call<C: Call>(&mut self)
    where
        dyn Service: Answers<C>,
    {
        if C::OPERATION.name == self.name {
            self.answer = Some(self.asked::<C>());
        }
    }
}

//! A lab that a [`Client`] is connected to, for sessions of [`netloom_session`].

use netloom_lab::call::Within;
use netloom_lab::calls::{AskSwitch, ListLinks, ShowPlan};
use netloom_lab::view::LinkStatus;
use netloom_model::Plan;
use netloom_node::entry::Entry;
use netloom_session::{Lab, Outcome};
use netloom_switch::control::requests::{Answer, Request};

use crate::Client;

impl Lab for Client {
    fn plan(&self) -> Outcome<Plan> {
        Ok(self.call(&ShowPlan { of: Within::ALL })?)
    }

    fn entry(&self, node: &str) -> Outcome<Entry> {
        Ok(Client::entry(self, node)?)
    }

    fn core(&self) -> Outcome<Entry> {
        Ok(Client::core(self)?)
    }

    fn links(&self) -> Outcome<Vec<LinkStatus>> {
        Ok(self.call(&ListLinks::whole())?)
    }

    fn ask_switch(&self, switch: &str, request: &Request) -> Outcome<Answer> {
        Ok(self.call(&AskSwitch { switch: switch.into(), request: request.clone() })?)
    }
}

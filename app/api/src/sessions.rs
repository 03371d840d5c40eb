//! A lab that a [`Client`] is connected to, for sessions of [`netloom_session`].

use netloom_lab::view::LinkStatus;
use netloom_model::Plan;
use netloom_node::entry::Entry;
use netloom_session::{Lab, Outcome};
use netloom_switch::control::requests::{Answer, Request};

use crate::Client;

impl Lab for Client {
    fn plan(&self) -> Outcome<Plan> {
        Ok(Client::plan(self)?)
    }

    fn entry(&self, node: &str) -> Outcome<Entry> {
        Ok(Client::entry(self, node)?)
    }

    fn core(&self) -> Outcome<Entry> {
        Ok(Client::core(self)?)
    }

    fn links(&self) -> Outcome<Vec<LinkStatus>> {
        Ok(self.status()?.links)
    }

    fn ask_switch(&self, switch: &str, request: &Request) -> Outcome<Answer> {
        Ok(Client::ask_switch(self, switch, request)?)
    }
}

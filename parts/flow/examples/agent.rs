//! An OpenFlow switch by hand, without a lab: `agent FOLDER DATAPATH CONTROLLER [INTERFACE]...`
//!
//! It runs in the network namespace of its interfaces, which become ports 1, 2, and so on, until it is
//! terminated. FOLDER must exist; `FOLDER/openflow` speaks OpenFlow, `FOLDER/control` takes requests. CONTROLLER is a target such as
//! `tcp:127.0.0.1:6653`, several with commas between, or `none`. NETLOOM_FLOW_FAIL may be `secure` or `standalone`.

use std::error::Error;
use std::path::Path;

use netloom_flow::application::{Controller, Fail};
use netloom_flow::control::{self, Connection, PortSpec};
use netloom_flow::{Application, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, datapath, controllers, interfaces @ ..] = arguments.as_slice() else {
        return Err("agent FOLDER DATAPATH CONTROLLER [INTERFACE]...".into());
    };
    let folder = Path::new(folder);
    let digits = datapath.strip_prefix("0x").unwrap_or(datapath);
    let datapath = u64::from_str_radix(digits, 16)?;
    let mut application = Application::new("agent", datapath, folder);
    for target in controllers.split(',').filter(|target| *target != "none") {
        application.controllers.push(Controller { target: target.parse()?, namespace: None });
    }
    if std::env::var("NETLOOM_FLOW_FAIL").is_ok_and(|fail| fail == "secure") {
        application.fail = Fail::Secure;
    }
    let path = folder.join("control");
    let listener = control::listen(&path)?;
    let interfaces = interfaces.to_vec();
    // It is connected to the switch before the switch serves, and waits for it.
    let client = Connection::open(&path)?.ok_or("nobody listens")?;
    std::thread::spawn(move || {
        for (number, interface) in (1..).zip(interfaces) {
            let name = interface.clone();
            let port = PortSpec { number, name, interface, mac: None };
            if let Err(e) = client.add_port(port) {
                eprintln!("agent: {}", netloom_sys::describe(&e));
            }
        }
    });
    serve(listener, folder, &application)?;
    Ok(())
}

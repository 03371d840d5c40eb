//! A browser under guard: many processes, threads, sockets and filters of its own. A rung of its own (`make test-browser`), since it
//! takes long, and few machines have one.

use netloom_tests_peers::{Ground, isolated, needs, program};

/// A page that fetches from its server by itself.
const PAGE: &str = "<!doctype html><title>a page</title><body><p id=a>none</p><script>
const r = new XMLHttpRequest(); r.open('GET', '/file', false); r.send();
document.getElementById('a').textContent = r.status + ' ' + r.responseText.trim();
</script></body>";

#[test]
fn chromium_shows_a_page() {
    needs!("chromium");
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let browser = names.into_iter().find_map(program).expect("its probe has found one");
    isolated!({
        let done = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(done.expect("start ip").success());
        let mut ground = Ground::new();
        ground.prepare("echo hello >file");
        std::fs::write(ground.served().join("page.html"), PAGE).expect("write");
        ground.serve_files();
        // Its zygote asks the kernel who sent a message, and under guard that is the supervisor.
        let said = ground.alike(&format!(
            "{} --headless --no-sandbox --no-zygote --disable-gpu --disable-dev-shm-usage --user-data-dir=$PWD/data \
             --dump-dom http://localhost:8080/page.html 2>errors; echo $?",
            browser.display()
        ));
        assert!(said.contains("200 hello") && said.ends_with("\n0\n"), "{said}");
    });
}

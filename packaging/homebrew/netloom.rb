# Homebrew on Linux: `brew install --formula ./netloom.rb`, beside the tarball, or from where that is published (URL).
class Netloom < Formula
  desc "Whole networks inside one Linux machine"
  homepage "@HOMEPAGE@"
  url "@URL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on arch: :@ARCH@
  depends_on :linux

  def install
    bin.install "netloom", "netloom-bench"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    bash_completion.install "completions/netloom.bash" => "netloom"
    zsh_completion.install "completions/_netloom"
    fish_completion.install "completions/netloom.fish"
    doc.install "README.md", "CHANGELOG.md", "THIRD-PARTY.txt", "LICENSE-MIT", "LICENSE-APACHE", "docs", "examples"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/netloom --version")
    (testpath/"two.yaml").write("nodes: {a: {}, b: {}}\nlinks: [a-b]\n")
    system bin/"netloom", "check", "two.yaml"
  end
end

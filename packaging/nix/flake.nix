# `nix profile install ./FOLDER` with this file and the tarball in FOLDER, or from where they are published.
{
  description = "Whole networks inside one Linux machine";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      system = "@SYSTEM@";
      pkgs = nixpkgs.legacyPackages.${system};
    in {
      packages.${system}.default = pkgs.stdenvNoCC.mkDerivation {
        pname = "netloom";
        version = "@VERSION@";
        src = ./@TARBALL@;
        nativeBuildInputs = [ pkgs.installShellFiles ];
        # It is linked statically, and needs no library of the system.
        dontPatchELF = true;
        dontStrip = true;
        installPhase = ''
          runHook preInstall
          install -D -m 755 -t $out/bin netloom netloom-bench
          installManPage man/*.1 man/*.5
          installShellCompletion --cmd netloom --bash completions/netloom.bash \
            --zsh completions/_netloom --fish completions/netloom.fish
          mkdir -p $out/share/doc/netloom
          cp -r README.md CHANGELOG.md THIRD-PARTY.txt LICENSE-MIT LICENSE-APACHE docs examples $out/share/doc/netloom/
          runHook postInstall
        '';
        meta = {
          description = "Whole networks inside one Linux machine";
          license = [ pkgs.lib.licenses.mit pkgs.lib.licenses.asl20 ];
          mainProgram = "netloom";
          platforms = [ system ];
        };
      };
    };
}

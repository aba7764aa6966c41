# nix run 'github:OWNER/deadheat?dir=packaging/nix' -- race tcp udp
{
  description = "Referee for network transports";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      # The flake's folder is a part of the source.
      source = ../..;
      manifest = builtins.fromTOML (builtins.readFile (source + "/Cargo.toml"));
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "deadheat";
          version = manifest.workspace.package.version;
          src = source;
          cargoLock.lockFile = source + "/Cargo.lock";
          cargoBuildFlags = [ "--bin" "deadheat" ];
          # Tests make network namespaces, which the sandbox of a build has not.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            $out/bin/deadheat man --all .
            installManPage deadheat*.1
            installShellCompletion --cmd deadheat \
              --bash <($out/bin/deadheat completions bash) \
              --zsh <($out/bin/deadheat completions zsh) \
              --fish <($out/bin/deadheat completions fish)
          '';
          meta = {
            description = "Referee for network transports";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "deadheat";
            platforms = systems;
          };
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell { packages = with pkgs; [ cargo rustc clippy rustfmt ]; };
      });
    };
}

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format deb
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // the format rpm
)

const (
	maintainer = "The Sluice authors <sluicehq@users.noreply.github.com>"
	homepage   = "https://github.com/sluicehq/sluice"
)

// pack makes a package of a format, deb or rpm.
func (r *release) pack(format string, t target) error {
	contents, err := r.contents(format, t)
	if err != nil {
		return err
	}
	script := func(name string) string { return r.path("packaging/scripts/" + format + "/" + name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "sluice", Arch: t.arch, Platform: "linux", Version: r.version, VersionSchema: "semver",
		Section: "net", Priority: "optional", Maintainer: maintainer, Homepage: homepage, License: "Apache-2.0", MTime: r.date,
		Description: "rate limiter: a reverse proxy, and a service that decides\n" +
			"Sluice decides whether a request may pass now, later, or not at all. It limits\n" +
			"traffic as a reverse proxy, and decides for Envoy, nginx, HAProxy, Caddy,\n" +
			"Traefik and clients of Redis. Servers share limits through Redis or Valkey.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")},
			Suggests: []string{"redis-server"},
			RPM:      nfpm.RPM{BuildHost: "localhost", Summary: "Rate limiter: a reverse proxy, and a service that decides"},
			Deb:      nfpm.Deb{Compression: "xz"},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return fmt.Errorf("%s for %s: %w", format, t.arch, err)
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var made bytes.Buffer
	if err := packager.Package(info, &made); err != nil {
		return fmt.Errorf("%s for %s: %w", format, t.arch, err)
	}
	return os.WriteFile(filepath.Join(r.out, packager.ConventionalFileName(info)), made.Bytes(), 0o644)
}

// contents lists the files of a package.
func (r *release) contents(format string, t target) (files.Contents, error) {
	var all files.Contents
	add := func(kind, from, to string, mode os.FileMode) {
		all = append(all, &files.Content{
			Type: kind, Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date},
		})
	}
	add("", r.binary(t), "/usr/bin/sluice", 0o755)
	add(files.TypeConfigNoReplace, r.path("packaging/sluice.yaml"), "/etc/sluice/sluice.yaml", 0o644)
	add("", r.path("packaging/systemd/sluice.service"), "/usr/lib/systemd/system/sluice.service", 0o644)
	add("", r.path("packaging/systemd/sluice.socket"), "/usr/lib/systemd/system/sluice.socket", 0o644)
	manual := filepath.Join(r.work, "manual")
	add("", filepath.Join(manual, "sluice.bash"), "/usr/share/bash-completion/completions/sluice", 0o644)
	add("", filepath.Join(manual, "sluice.fish"), "/usr/share/fish/vendor_completions.d/sluice.fish", 0o644)
	add("", filepath.Join(manual, "_sluice"), map[string]string{
		"deb": "/usr/share/zsh/vendor-completions/_sluice",
		"rpm": "/usr/share/zsh/site-functions/_sluice",
	}[format], 0o644)
	pages, err := filepath.Glob(filepath.Join(manual, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		zipped, err := r.compressed(page)
		if err != nil {
			return nil, err
		}
		add("", zipped, "/usr/share/man/man1/"+filepath.Base(zipped), 0o644)
	}
	if format == "rpm" {
		add("", r.path("LICENSE"), "/usr/share/licenses/sluice/LICENSE", 0o644)
		return all, nil
	}
	changes := filepath.Join(r.work, "changelog")
	text := fmt.Sprintf("sluice (%s) stable; urgency=medium\n\n  * %s/blob/v%s/CHANGELOG.md has the changes.\n\n -- %s  %s\n",
		strings.Replace(r.version, "-", "~", 1), homepage, r.version, maintainer, r.date.Format(time.RFC1123Z))
	if err := os.WriteFile(changes, []byte(text), 0o644); err != nil {
		return nil, err
	}
	zipped, err := r.compressed(changes)
	if err != nil {
		return nil, err
	}
	add("", zipped, "/usr/share/doc/sluice/changelog.gz", 0o644)
	add("", r.path("packaging/debian/copyright"), "/usr/share/doc/sluice/copyright", 0o644)
	add("", r.path("packaging/debian/overrides"), "/usr/share/lintian/overrides/sluice", 0o644)
	return all, nil
}

// compressed writes a file again, compressed and without a name or a time.
func (r *release) compressed(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(text); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return name + ".gz", os.WriteFile(name+".gz", packed.Bytes(), 0o644)
}

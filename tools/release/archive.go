package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// archive makes the archive of a system, for installing by hand: the program, license, pages and completions.
func (r *release) archive(t target) error {
	name := fmt.Sprintf("sluice_%s_%s_%s", r.version, t.os, t.arch)
	if t.os == "windows" {
		return r.zip(name, t)
	}
	var made bytes.Buffer
	packed := gzip.NewWriter(&made)
	w := tar.NewWriter(packed)
	program, err := os.ReadFile(r.binary(t))
	if err != nil {
		return err
	}
	if err := r.addFile(w, name+"/sluice", 0o755, program); err != nil {
		return err
	}
	for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md", "packaging/sluice.yaml", "packaging/systemd/sluice.service", "packaging/systemd/sluice.socket"} {
		text, err := os.ReadFile(r.path(file))
		if err != nil {
			return err
		}
		if err := r.addFile(w, name+"/"+path.Base(file), 0o644, text); err != nil {
			return err
		}
	}
	if err := r.addTo(w, name+"/manual/", os.DirFS(filepath.Join(r.work, "manual"))); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".tar.gz"), made.Bytes(), 0o644)
}

// zip makes the archive for Windows.
func (r *release) zip(name string, t target) error {
	var made bytes.Buffer
	w := zip.NewWriter(&made)
	for _, file := range []string{r.binary(t), r.path("LICENSE"), r.path("README.md"), r.path("packaging/image.yaml")} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		as := strings.Replace(filepath.Base(file), "image.yaml", "sluice.yaml", 1)
		f, err := w.CreateHeader(&zip.FileHeader{Name: name + "/" + as, Method: zip.Deflate, Modified: r.date})
		if err != nil {
			return err
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".zip"), made.Bytes(), 0o644)
}

// chart makes the Helm chart. The chart and its image have the version of the release.
func (r *release) chart([]target) error {
	var made bytes.Buffer
	packed := gzip.NewWriter(&made)
	w := tar.NewWriter(packed)
	dir := r.path("packaging/chart")
	var names []string
	for _, pattern := range []string{"*", "templates/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			if err != nil {
				return err
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if in == "Chart.yaml" {
			text = bytes.ReplaceAll(text, []byte("0.0.0"), []byte(r.version))
		}
		if err := r.addFile(w, "sluice/"+filepath.ToSlash(in), 0o644, text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "sluice-"+r.version+".tgz"), made.Bytes(), 0o644)
}

// bill makes a bill of materials in SPDX 2.3: the modules in the programs, with their versions and checksums.
func (r *release) bill(targets []target) error {
	info, err := buildinfo.ReadFile(r.binary(targets[0]))
	if err != nil {
		return err
	}
	main := &v2_3.Package{
		PackageName: "sluice", PackageSPDXIdentifier: "Package-sluice", PackageVersion: r.version,
		PackageDownloadLocation: "git+" + homepage + "@" + r.commit, PackageLicenseDeclared: "Apache-2.0",
		PackageLicenseConcluded: "NOASSERTION", PackageCopyrightText: "NOASSERTION", PrimaryPackagePurpose: "APPLICATION",
	}
	d := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "sluice-" + r.version,
		DocumentNamespace: homepage + "/releases/download/v" + r.version + "/sluice-" + r.commit + ".spdx.json",
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "sluice-release"}}, Created: r.date.Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{main},
		Relationships: []*v2_3.Relationship{{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "Package-sluice"), Relationship: "DESCRIBES",
		}},
	}
	add := func(name, version, sum string) {
		id := common.ElementID("Package-" + strings.NewReplacer("/", "-", "_", "-", "~", "-").Replace(name))
		p := &v2_3.Package{
			PackageName: name, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
			PackageLicenseDeclared: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
			PackageComment: sum,
			PackageExternalReferences: []*v2_3.PackageExternalReference{{
				Category: "PACKAGE-MANAGER", RefType: "purl", Locator: "pkg:golang/" + name + "@" + version,
			}},
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, &v2_3.Relationship{
			RefA: common.MakeDocElementID("", "Package-sluice"), RefB: common.MakeDocElementID("", string(id)), Relationship: "DEPENDS_ON",
		})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")
	for _, m := range info.Deps {
		if !strings.HasPrefix(m.Path, "github.com/sluicehq/sluice") {
			add(m.Path, m.Version, m.Sum)
		}
	}
	var made bytes.Buffer
	if err := spdxjson.Write(d, &made); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "sluice_"+r.version+".spdx.json"), made.Bytes(), 0o644)
}

// checksums writes the SHA-256 of every artifact, as sha256sum -c reads it.
func (r *release) checksums([]target) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user of the image. It is a number, so that Kubernetes sees that it is not root.
const nobody = "65532:65532"

// image makes sluice_VERSION_image.tar: one image for all Linux targets, as a tar file of an OCI layout, which docker
// load, podman load and skopeo read.
func (r *release) image(targets []target) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		if t.os != "linux" {
			continue
		}
		one, err := r.imageFor(t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: t.os, Architecture: t.arch},
		}})
	}
	dir := filepath.Join(r.work, "image")
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	// skopeo and podman read the first name, docker load the second.
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          "docker.io/library/sluice:" + r.version,
	}))
	if err != nil {
		return err
	}
	return r.tarball(filepath.Join(r.out, "sluice_"+r.version+"_image.tar"), os.DirFS(dir))
}

// imageFor returns the image of one system: the program, its configuration, and the authorities of certificates that
// the building machine trusts are all that is in it.
func (r *release) imageFor(t target) (v1.Image, error) {
	program, err := os.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(r.path("packaging/image.yaml"))
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, f := range []struct {
		name string
		mode int64
		uid  int
		text []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/sluice/", 0o755, 0, nil},
		{"etc/sluice/sluice.yaml", 0o644, 0, config},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/sluice", 0o755, 0, program},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/sluice/", 0o700, 65532, nil},
	} {
		kind := byte(tar.TypeReg)
		if f.text == nil {
			kind = tar.TypeDir
		}
		head := &tar.Header{Typeflag: kind, Name: f.name, Mode: f.mode, Uid: f.uid, Gid: f.uid, Size: int64(len(f.text)), ModTime: r.date}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	built, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: r.date}, CreatedBy: "make package", Comment: "sluice " + r.version,
	}})
	if err != nil {
		return nil, err
	}
	file, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = t.os, t.arch, v1.Time{Time: r.date}
	file.Config = v1.Config{
		User:       nobody,
		Entrypoint: []string{"/usr/bin/sluice"},
		Cmd:        []string{"serve", "/etc/sluice/sluice.yaml"},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/usr/bin/sluice", "health"}, Interval: 10 * time.Second, Timeout: 3 * time.Second, Retries: 3,
		},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "sluice",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.source":   homepage,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(built, file)
}

// tarball writes the files of a folder, in the order of their names, all of the release's date.
func (r *release) tarball(to string, from fs.FS) error {
	var made bytes.Buffer
	w := tar.NewWriter(&made)
	if err := r.addTo(w, "", from); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, made.Bytes(), 0o644)
}

// addTo adds the files of a folder to a tar file, under a prefix.
func (r *release) addTo(w *tar.Writer, prefix string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return r.addFile(w, prefix+name, 0o644, text)
	})
}

// addFile adds a file to a tar file.
func (r *release) addFile(w *tar.Writer, name string, mode int64, text []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)), ModTime: r.date, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

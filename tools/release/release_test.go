//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// The artifacts of two versions, and of the second one made again, for this system. Tests make them once.
var first, second, again string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		top, err := os.MkdirTemp("", "release")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(top)
		for name, x := range map[string]*string{"v0.1.0": &first, "v0.1.1": &second, "v0.1.1+again": &again} {
			*x = filepath.Join(top, name)
			version, _, _ := strings.Cut(name, "+")
			if err := run(version, *x, []string{"linux/amd64"}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

// command runs a program and returns what it prints. An error fails the test.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("the command %s %s fails: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text)
}

// The same commit gives the same bytes.
func TestArtifactsAreReproducible(t *testing.T) {
	entries, err := os.ReadDir(second)
	if err != nil || len(entries) < 7 {
		t.Fatalf("a release has %d files, %v; want 7 or more", len(entries), err)
	}
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(second, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(again, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s has other bytes when it is made again", e.Name())
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = second
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, text)
	}
}

// The linters of Debian and RPM find no error, and systemd rates the unit as safe.
func TestPackagesPassTheirLinters(t *testing.T) {
	command(t, "lintian", "--fail-on", "error", filepath.Join(second, "sluice_0.1.1_amd64.deb"))
	files := command(t, "rpm", "--query", "--package", "--list", filepath.Join(second, "sluice-0.1.1-1.x86_64.rpm"))
	for _, want := range []string{"/usr/bin/sluice\n", "/etc/sluice/sluice.yaml\n", "/usr/lib/systemd/system/sluice.service\n", "/usr/share/man/man1/sluice-serve.1.gz\n"} {
		if !strings.Contains(files, want) {
			t.Errorf("the RPM package lacks %s", want)
		}
	}
	config := command(t, "rpm", "--query", "--package", "--configfiles", filepath.Join(second, "sluice-0.1.1-1.x86_64.rpm"))
	if config != "/etc/sluice/sluice.yaml\n" {
		t.Errorf("the RPM package has the configuration files %q", config)
	}
	command(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "../../packaging/systemd/sluice.service")
}

// machine is a copy of this machine: what is written there is gone after the test.
type machine struct {
	t    *testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("a copy of the machine needs root: run the tests as root")
	}
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	layers := t.TempDir()
	// An overlay cannot be on another one, as the folder of a container is, so it is in memory.
	mount := func(source, target, kind, options string) {
		t.Helper()
		if err := os.MkdirAll(target, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount(source, target, kind, 0, options); err != nil {
			t.Fatalf("mounting %s: %v", target, err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
	}
	mount("tmpfs", layers, "tmpfs", "size=512m")
	upper, work := filepath.Join(layers, "upper"), filepath.Join(layers, "work")
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount("overlay", m.root, "overlay", "lowerdir=/,upperdir="+upper+",workdir="+work)
	mount("proc", filepath.Join(m.root, "proc"), "proc", "")
	mount("tmpfs", filepath.Join(m.root, "tmp"), "tmpfs", "size=128m")
	mount("tmpfs", filepath.Join(m.root, "run"), "tmpfs", "") // systemd does not run there
	return m
}

// command returns a command there.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/usr/sbin/chroot", append([]string{m.root, name}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}
	return cmd
}

// run runs a command there, and returns what it prints.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	text, err := m.command(name, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("the command %s %s fails: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text)
}

// put copies a file of this machine into its folder for temporary files.
func (m *machine) put(file string) string {
	m.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.root, "tmp", filepath.Base(file)), text, 0o644); err != nil {
		m.t.Fatal(err)
	}
	return "/tmp/" + filepath.Base(file)
}

// has reports whether a file is there.
func (m *machine) has(name string) bool {
	_, err := os.Lstat(filepath.Join(m.root, name))
	return err == nil
}

// The Debian package is installed, limits, is upgraded with the operator's configuration, and leaves nothing when it is purged.
func TestDebianPackageFromInstallToPurge(t *testing.T) {
	m := newMachine(t)
	m.run("dpkg", "--install", m.put(filepath.Join(first, "sluice_0.1.0_amd64.deb")))
	if text := m.run("/usr/bin/sluice", "version"); !strings.HasPrefix(text, "sluice v0.1.0 ") {
		t.Errorf("the version is %q", text)
	}
	config := filepath.Join(m.root, "etc", "sluice", "sluice.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	// The service has its folder of states from systemd, and free ports from this test.
	if err := os.MkdirAll(filepath.Join(m.root, "var", "lib", "sluice"), 0o700); err != nil {
		t.Fatal(err)
	}
	mine := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "127.0.0.1:8081", "127.0.0.1:0", "127.0.0.1:9090", "127.0.0.1:0").Replace(string(text))
	if err := os.WriteFile(config, []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	fiveThenRefused(t, m.command("/usr/bin/sluice", "serve", "/etc/sluice/sluice.yaml"))
	if !m.has("var/lib/sluice/states") {
		t.Error("the server saved no states")
	}

	m.run("dpkg", "--install", m.put(filepath.Join(second, "sluice_0.1.1_amd64.deb")))
	if text := m.run("/usr/bin/sluice", "version"); !strings.HasPrefix(text, "sluice v0.1.1 ") {
		t.Errorf("after the upgrade the version is %q", text)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != mine {
		t.Errorf("the upgrade changed the configuration: %v\n%s", err, text)
	}
	m.run("/usr/bin/sluice", "validate", "/etc/sluice/sluice.yaml")
	if text := m.run("bash", "-c", "source /usr/share/bash-completion/completions/sluice; complete -p sluice"); !strings.Contains(text, "sluice") {
		t.Errorf("bash completes with %q", text)
	}

	m.run("dpkg", "--purge", "sluice")
	for _, gone := range []string{"usr/bin/sluice", "etc/sluice", "var/lib/sluice", "usr/lib/systemd/system/sluice.service", "usr/share/doc/sluice"} {
		if m.has(gone) {
			t.Errorf("the purge left /%s", gone)
		}
	}
}

// fiveThenRefused runs a server with the default rule, and sends six requests to its proxy.
func fiveThenRefused(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v\n%s", err, log.String())
		}
	}()
	url := listener(output, "proxy")
	if url == "" {
		t.Fatalf("the server names no proxy:\n%s", log.String())
	}
	for i := range 6 {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 5]; res.StatusCode != want {
			t.Errorf("request %d gets %d, want %d", i+1, res.StatusCode, want)
		}
	}
}

// listener reads the URL of a listener from what a server prints at its start.
func listener(output io.Reader, name string) string {
	var text []byte
	for one := make([]byte, 1); ; {
		if _, err := output.Read(one); err != nil {
			return ""
		}
		if one[0] != '\n' {
			text = append(text, one[0])
			continue
		}
		if word, url, _ := strings.Cut(string(text), " "); word == name {
			url, _, _ = strings.Cut(strings.TrimSpace(url), " ")
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return url
		}
		text = nil
	}
}

// The image runs as nobody on a root file system that it cannot write, reports its health, and is small.
func TestImageRuns(t *testing.T) {
	path := filepath.Join(second, "sluice_0.1.1_image.tar")
	if info, err := os.Stat(path); err != nil || info.Size() > 45<<20 {
		t.Fatalf("the image: %v, %d bytes; want at most 45 MiB", err, info.Size())
	}
	described := command(t, "skopeo", "inspect", "--config", "oci-archive:"+path+":0.1.1")
	if !strings.Contains(described, `"User":"65532:65532"`) && !strings.Contains(described, `"User": "65532:65532"`) {
		t.Errorf("skopeo reads the configuration %s", described)
	}
	dir := t.TempDir()
	command(t, "tar", "--extract", "--file", path, "--directory", dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err == nil {
		index, err = index.ImageIndex(manifest.Manifests[0].Digest) // of all systems
	}
	if err == nil {
		manifest, err = index.IndexManifest()
	}
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the index has %v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if c.User != "65532:65532" || c.Healthcheck == nil || config.Architecture != "amd64" || c.Labels["org.opencontainers.image.version"] != "0.1.1" {
		t.Errorf("the image has the configuration %+v", c)
	}
	root := extract(t, image)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		cmd.Dir, cmd.Env = "/", []string{"SLUICE_LISTEN_PROXY=127.0.0.1:0", "SLUICE_LISTEN_API=off", "SLUICE_LISTEN_ADMIN=127.0.0.1:0"}
		return cmd
	}
	server := in(append(append([]string{}, c.Entrypoint...), c.Cmd...)...)
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	admin := listener(output, "admin")
	health := append(append([]string{}, c.Healthcheck.Test[1:]...), "--server", admin)
	var text []byte
	for range 100 { // it answers 503 until it takes traffic
		if text, err = in(health...).CombinedOutput(); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("the server in the image is not healthy, by %s: %v\n%s", health, err, text)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server in the image: %v", err)
	}
	if text, err := in(health...).CombinedOutput(); err == nil {
		t.Errorf("a server that has ended is healthy: %s", text)
	}
}

// extract writes the file system of an image into a folder, which only root can write, except for what belongs to others.
func extract(t *testing.T, image v1.Image) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	for dir := root; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil { // the user of the image must get there
			t.Fatal(err)
		}
	}
	files := mutate.Extract(image)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, head.Name)
		if head.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, head.FileInfo().Mode())
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, text, head.FileInfo().Mode())
			}
		}
		if err == nil {
			err = os.Chown(name, head.Uid, head.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The bill of materials names the modules in the program, and the archive has all that an installation by hand needs.
func TestArchiveAndBill(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(second, "sluice_0.1.1.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"spdxVersion": "SPDX-2.3"`, "github.com/redis/rueidis", "pkg:golang/google.golang.org/grpc@v", `"name": "stdlib"`} {
		if !bytes.Contains(text, []byte(want)) && !bytes.Contains(text, []byte(strings.ReplaceAll(want, `": "`, `":"`))) {
			t.Errorf("the bill of materials lacks %s", want)
		}
	}
	files := command(t, "tar", "--list", "--file", filepath.Join(second, "sluice_0.1.1_linux_amd64.tar.gz"))
	for _, want := range []string{"/sluice\n", "/LICENSE\n", "/sluice.yaml\n", "/sluice.service\n", "/manual/sluice.1\n", "/manual/sluice.bash\n"} {
		if !strings.Contains(files, "sluice_0.1.1_linux_amd64"+want) {
			t.Errorf("the archive lacks %s", want)
		}
	}
}

// A wrong version or system is refused before anything is made.
func TestWrongVersionsAreRefused(t *testing.T) {
	for version, systems := range map[string]string{"1.2.3": "linux/amd64", "v1.2": "linux/amd64", "v1.2.3": "linux/386"} {
		dir := filepath.Join(t.TempDir(), "dist")
		if err := run(version, dir, []string{systems}); err == nil || !strings.Contains(err.Error(), "write ") {
			t.Errorf("%s for %s: the error is %v, want one with a remedy", version, systems, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s for %s: a folder was made", version, systems)
		}
	}
}

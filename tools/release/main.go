// Command release makes all that a release of Sluice consists of: programs, Debian and RPM packages, an image for
// containers, a Helm chart, a list of the modules inside, and checksums. The same commit gives the same bytes.
//
//	go -C tools/release run . -version v1.2.3 -o ../../dist
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "v0.0.0", "`VERSION` of the release, such as v1.2.3")
	out := flag.String("o", "../../dist", "`FOLDER` for what is made; it must not hold anything else")
	targets := flag.String("targets", "linux/amd64,linux/arm64", "`SYSTEMS` to build for; each is OS/ARCHITECTURE")
	flag.Parse()
	if err := run(*version, *out, strings.Split(*targets, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is one version of Sluice, made from one commit.
type release struct {
	version string    // without the v
	commit  string    // the whole hash
	date    time.Time // of the commit; all files that are made have it
	root    string    // the top folder of the repository
	out     string    // where the artifacts go
	work    string    // a folder for programs and pages on their way into artifacts
}

// A target is a system that Sluice is built for.
type target struct{ os, arch string }

var (
	versions = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	systems  = regexp.MustCompile(`^(linux|darwin|windows)/(amd64|arm64)$`)
)

func run(version, out string, systemNames []string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("-version %q is not a version: write v1.2.3", version)
	}
	targets := make([]target, len(systemNames))
	for i, name := range systemNames {
		if !systems.MatchString(name) {
			return fmt.Errorf("-targets: %q is not a system: write linux, darwin or windows, a slash, and amd64 or arm64", name)
		}
		targets[i].os, targets[i].arch, _ = strings.Cut(name, "/")
	}
	r := release{version: version[1:]}
	var err error
	if r.root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if r.commit, r.date, err = head(r.root); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "sluice-release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.manual(); err != nil {
		return err
	}
	for _, t := range targets {
		if err := r.build(t); err != nil {
			return err
		}
		if err := r.archive(t); err != nil {
			return err
		}
		if t.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, t); err != nil {
				return err
			}
		}
	}
	for _, step := range []func([]target) error{r.image, r.chart, r.bill, r.checksums} {
		if err := step(targets); err != nil {
			return err
		}
	}
	return nil
}

// head returns the commit that is checked out, and its date. SOURCE_DATE_EPOCH overrides the date.
func head(root string) (string, time.Time, error) {
	text, err := exec.Command("git", "-C", root, "log", "-1", "--format=%H %ct").Output()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("reading the commit: %w; run it in a clone of the repository", err)
	}
	commit, stamp, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		stamp = epoch
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("the date %q is not in seconds since 1970: %w", stamp, err)
	}
	return commit, time.Unix(seconds, 0).UTC(), nil
}

// binary returns the program of a system.
func (r *release) binary(t target) string {
	name := "sluice"
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, t.os+"_"+t.arch, name)
}

// build builds the program of a system: static, without the paths of this machine, and without tables for debuggers.
func (r *release) build(t target) error {
	const cli = "github.com/sluicehq/sluice/server/internal/cli."
	flags := fmt.Sprintf("-s -w -buildid= -X %[1]sversion=v%[2]s -X %[1]scommit=%[3]s -X %[1]sdate=%[4]s",
		cli, r.version, r.commit, r.date.Format(time.RFC3339))
	return r.do([]string{"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", r.binary(t), "./server/cmd/sluice")
}

// manual writes man pages and completions into the work folder.
func (r *release) manual() error {
	dir := filepath.Join(r.work, "manual")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	flags := "-X github.com/sluicehq/sluice/server/internal/cli.version=v" + r.version
	return r.do([]string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix())}, "go", "run", "-ldflags", flags, "./server/cmd/manual", dir)
}

// do runs a command in the top folder.
func (r *release) do(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	// The program is built from the workspace, whatever this module is built from.
	cmd.Env = append(append(os.Environ(), "GOWORK=", "GOFLAGS="), env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return nil
}

// path returns the path of a file of the repository.
func (r *release) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/file/reader"

	"github.com/sluicehq/sluice/internal/file/envoy"
)

// TestFilesOfItsOwn: no file that the server writes is also another file of it, whatever way a path takes to the file.
func TestFilesOfItsOwn(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{"log", "denied.txt", "cert.pem"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link("log", "hard"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"link": "log", "dangling": "folder/later", "chain": "dangling", "around": "folder", "loop": "loop", "folder/up": "../new",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	const begin = "version: 1\n"
	logs := func(audit, access string) string {
		return begin + "audit: {file: " + audit + "}\naccess_log: {file: " + access + "}\n"
	}
	const last = "\nrules: [{name: a, key: client_ip, deny: {client_ip_file: denied.txt}, limit: {algorithm: token_bucket, rate: 1/s}}]\n"
	for _, x := range []struct{ name, text, want string }{
		{"apart", logs("log", "other"), ""},
		{"same", logs("log", "log"), "sluice.yaml:2:15: audit.file: \"log\" is the file of access_log.file too; give each of them a file of its own"},
		{"not there yet", logs("new", dir+"/folder/../new"), "access_log.file"},
		{"link", logs("log", "./link"), "access_log.file"},
		{"hard link", logs("log", "hard"), "access_log.file"},
		{"link to nothing", logs("chain", "folder/later"), "access_log.file"},
		{"link in a folder", logs("around/up", "new"), "access_log.file"},
		{"folder", logs("around/x/y", "folder/x/y"), "access_log.file"},
		{"loop", logs("loop", "log"), ""}, // opening it is an error
		{"streams", logs("stdout", "stdout"), ""},
		{"device", logs("/dev/null", "/dev/null"), ""},
		{"states", begin + "audit: {file: log}\nstore: {memory: {file: log}}\n", "store.memory.file"},
		{"itself", begin + "audit: {file: sluice.yaml}\n", "sluice.yaml:2:15: audit.file: \"sluice.yaml\" is the file of the configuration too"},
		{"list", begin + "audit: {file: denied.txt}" + last, "rules[0].deny.client_ip_file"},
		{"certificate", begin + "audit: {file: cert.pem}\nlisten: {admin: {address: '127.0.0.1:0', tls: {cert: cert.pem, key: k}}}\n", "listen.admin.tls.cert"},
		{"read twice", begin + "listen: {admin: {address: '127.0.0.1:0', tls: {cert: cert.pem, key: cert.pem}}}\n", ""},
		{"token", begin + "audit: {file: denied.txt}\nadmin: {token_file: denied.txt}\n", "admin.token_file"},
		{"flag", begin + "audit: {file: kept}\n", "audit.file: \"kept\" is the file of last-good too"},
		{"flags", begin, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			if err := os.WriteFile("sluice.yaml", []byte(x.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Load("sluice.yaml")
			if err != nil {
				t.Fatal(err)
			}
			err = f.CheckWrites(NamedFile{Setting: "last-good", Path: "kept", Written: true}, NamedFile{Setting: "another flag"})
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("the error is %v, want %q", err, x.want)
			}
		})
	}
	f := Default()
	err = f.CheckWrites(NamedFile{Setting: "last-good", Path: "kept", Written: true}, NamedFile{Setting: "the admin token", Path: "./kept"})
	if err == nil || err.Error() != `last-good: "kept" is the file of the admin token too; give each of them a file of its own, because the server writes to it` {
		t.Errorf("two flags: %v", err)
	}
}

// TestFilesOfAFolder: the files of a folder are the configuration.
func TestFilesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, []byte("domain: a\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := LoadEnvoy(dir, envoy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckWrites(NamedFile{Setting: "last-good", Path: file, Written: true}); err == nil || !strings.Contains(err.Error(), "the file of the configuration") {
		t.Errorf("the error is %v", err)
	}
}

// TestFilesHaveTags: each setting that names a file has a tag with its use.
func TestFilesHaveTags(t *testing.T) {
	found, seen := 0, map[reflect.Type]bool{}
	var visit func(path string, v reflect.Type)
	visit = func(path string, v reflect.Type) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Slice:
			visit(path, v.Elem())
		case reflect.Struct:
			if seen[v] {
				return
			}
			seen[v] = true
			for _, field := range reader.Fields(v) {
				name := field.Tag.Get("yaml")
				if field.Type.Kind() != reflect.String {
					visit(reader.Child(path, name), field.Type)
					continue
				}
				names := name == "cert" || name == "ca" || name == "client_ca" || name == "file" || strings.HasSuffix(name, "_file") || name == "key" && strings.HasSuffix(path, "tls")
				if names {
					found++
				}
				if use := field.Tag.Get("path"); names != (use == "read" || use == "written" || use == "included") {
					t.Errorf("%s.%s has the tag path:%q", path, name, use)
				}
			}
		default: // it has no fields
		}
	}
	visit("", reflect.TypeFor[File]())
	if found < 19 {
		t.Errorf("only %d settings name files", found)
	}
}

// Command protogen writes the Go code of proto files, beside them: messages by
// protoc-gen-go, services by protoc-gen-go-grpc, both at the versions of tools/go.mod.
// It needs no protoc. With -check it writes nothing, and fails if a file differs.
//
//	protogen [-check] FILE.proto…
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins make the code; their names are those of tools in go.mod.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file differs")
	flag.Parse()
	stale := false
	for _, file := range flag.Args() {
		changed, err := generate(context.Background(), file, !*check)
		if err != nil {
			fmt.Fprintf(os.Stderr, "protogen: %s: %v\n", file, err)
			os.Exit(1)
		}
		for _, name := range changed {
			fmt.Println(name)
		}
		stale = stale || len(changed) > 0
	}
	if *check && stale {
		os.Exit(1)
	}
}

// generate makes the code of one file, and returns the names of the files that
// differ from it.
func generate(ctx context.Context, file string, write bool) (changed []string, err error) {
	dir, name := filepath.Split(file)
	request, err := requestFor(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	for _, plugin := range plugins {
		code, err := run(ctx, plugin, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		for _, f := range code {
			path := filepath.Join(dir, f.GetName())
			old, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			if bytes.Equal(old, []byte(f.GetContent())) {
				continue
			}
			changed = append(changed, path)
			if write {
				if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
					return nil, err
				}
			}
		}
	}
	return changed, nil
}

// requestFor compiles a file into what plugins read. Comments go with it.
func requestFor(ctx context.Context, dir, name string) ([]byte, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name},
		Parameter:      proto.String("paths=source_relative"),
	}
	// A file comes after those that it imports.
	seen := map[string]bool{}
	var add func(f *descriptorpb.FileDescriptorProto) error
	add = func(f *descriptorpb.FileDescriptorProto) error {
		if seen[f.GetName()] {
			return nil
		}
		seen[f.GetName()] = true
		for _, dependency := range f.GetDependency() {
			d, err := compiler.Compile(ctx, dependency)
			if err != nil {
				return err
			}
			if err := add(protoutil.ProtoFromFileDescriptor(d[0])); err != nil {
				return err
			}
		}
		request.ProtoFile = append(request.ProtoFile, f)
		return nil
	}
	for _, f := range files {
		if err := add(protoutil.ProtoFromFileDescriptor(f)); err != nil {
			return nil, err
		}
	}
	return proto.Marshal(request)
}

// run has a plugin make code.
func run(ctx context.Context, plugin string, request []byte) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s", response.GetError())
	}
	return response.GetFile(), nil
}

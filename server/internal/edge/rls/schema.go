package rls

import (
	"fmt"
	"slices"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// schema has the descriptors of the messages, with the fields that the generated code lacks.
type schema struct {
	request, response protoreflect.MessageDescriptor
	files             *protoregistry.Files
}

// multiplied are the messages with a unit_multiplier, and the number of that field.
var multiplied = map[protoreflect.FullName]int32{
	"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride": 3,
	"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit":                     fieldUnitMultiplier,
}

// newSchema returns the schema.
func newSchema() (*schema, error) {
	s := &schema{files: &protoregistry.Files{}}
	if err := s.add(wrapperspb.File_google_protobuf_wrappers_proto); err != nil {
		return nil, err
	}
	if err := s.add(ratelimitpb.File_envoy_service_ratelimit_v3_rls_proto); err != nil {
		return nil, err
	}
	for name, at := range map[protoreflect.FullName]*protoreflect.MessageDescriptor{
		"envoy.service.ratelimit.v3.RateLimitRequest": &s.request, "envoy.service.ratelimit.v3.RateLimitResponse": &s.response,
	} {
		d, err := s.files.FindDescriptorByName(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*at = d.(protoreflect.MessageDescriptor)
	}
	return s, nil
}

// add adds a file after the files that it imports.
func (s *schema) add(f protoreflect.FileDescriptor) error {
	if _, err := s.files.FindFileByPath(f.Path()); err == nil {
		return nil
	}
	imports := f.Imports()
	for i := range imports.Len() {
		if file := imports.Get(i).FileDescriptor; !file.IsPlaceholder() {
			if err := s.add(file); err != nil {
				return err
			}
		}
	}
	d := protodesc.ToFileDescriptorProto(f)
	completed := false
	for _, m := range d.GetMessageType() {
		completed = complete(protoreflect.FullName(d.GetPackage()), m) || completed
	}
	if wrappers := wrapperspb.File_google_protobuf_wrappers_proto.Path(); completed && !slices.Contains(d.GetDependency(), wrappers) {
		d.Dependency = append(d.Dependency, wrappers)
	}
	file, err := protodesc.FileOptions{AllowUnresolvable: true}.New(d, s.files)
	if err != nil {
		return err
	}
	return s.files.RegisterFile(file)
}

// complete adds the field to a message that should have it, and to the messages inside. It reports whether it added
// one.
func complete(parent protoreflect.FullName, m *descriptorpb.DescriptorProto) (added bool) {
	name := parent.Append(protoreflect.Name(m.GetName()))
	for _, inner := range m.GetNestedType() {
		added = complete(name, inner) || added
	}
	number, ok := multiplied[name]
	if !ok || slices.ContainsFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool { return f.GetNumber() == number }) {
		return added
	}
	m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
		Name: proto.String("unit_multiplier"), JsonName: proto.String("unitMultiplier"), Number: proto.Int32(number),
		Label:    descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		Type:     descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		TypeName: proto.String(".google.protobuf.UInt32Value"),
	})
	return true
}

// FindFileByPath finds a file for the reflection of a server.
func (s *schema) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := s.files.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName finds a descriptor for the reflection of a server.
func (s *schema) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := s.files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// Descriptors returns the descriptors of the service and of all that the program has, for reflection.
func (s *Service) Descriptors() protodesc.Resolver { return s.schema }

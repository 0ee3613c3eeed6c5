// Renders a chart as Helm does, where Helm cannot be had.
//
// Go's templates, sprig and a YAML library are the parts that Helm itself is made of; this puts them together in the
// same way (pkg/engine, pkg/chartutil): one set of templates, values.yaml with the given values over it, null deletes.
// It knows no dependencies, no cluster and no post-rendering; what checks a chart's schema is not here either.
//
// Reads {"chart", "release", "namespace", "values"} from stdin, and writes {"values", "files", "documents"} or, with
// status 1, what is wrong.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/ioutil"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

type object = map[string]interface{}

type request struct {
	Chart, Release, Namespace string
	Values                    object
}

type files map[string][]byte

func (f files) Get(name string) string      { return string(f[name]) }
func (f files) GetBytes(name string) []byte { return f[name] }
func (f files) Lines(name string) []string {
	return strings.Split(strings.TrimSuffix(f.Get(name), "\n"), "\n")
}
func (f files) AsConfig() string {
	return f.mapped(func(content []byte) string { return string(content) })
}
func (f files) AsSecrets() string { return f.mapped(base64.StdEncoding.EncodeToString) }

// Helm's patterns are those of gobwas/glob; without braces and double stars they are path.Match's.
func (f files) Glob(pattern string) files {
	if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, "{}") {
		panic("this renderer knows no ** and {} in Files.Glob")
	}
	found := files{}
	for name, content := range f {
		if matched, err := path.Match(pattern, name); err != nil {
			panic(err)
		} else if matched {
			found[name] = content
		}
	}
	return found
}

func (f files) mapped(as func([]byte) string) string {
	content := map[string]string{}
	for name, data := range f {
		content[path.Base(name)] = as(data)
	}
	return toYAML(content)
}

type apiVersions []string

func (a apiVersions) Has(version string) bool {
	for _, each := range a {
		if each == version {
			return true
		}
	}
	return false
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	all, err := read(asked.Chart)
	if err != nil {
		return err
	}
	chart, values := object{}, object{}
	if err := yaml.Unmarshal(all["Chart.yaml"], &chart); err != nil {
		return err
	}
	if err := yaml.Unmarshal(all["values.yaml"], &values); err != nil {
		return err
	}
	values = over(values, asked.Values)
	rendered, err := render(all, top(chart, values, asked, all))
	if err != nil {
		return err
	}
	documents, err := split(rendered)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(object{"values": values, "files": rendered, "documents": documents})
}

// read takes what Helm packs, through links.
func read(root string) (files, error) {
	found := files{}
	return found, walk(root, "", found)
}

func walk(root, folder string, found files) error {
	entries, err := ioutil.ReadDir(filepath.Join(root, folder))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		where := filepath.Join(root, name)
		info, err := os.Stat(where)
		if err != nil {
			return err // a link that leads nowhere
		}
		if info.IsDir() {
			err = walk(root, name, found)
		} else {
			found[name], err = ioutil.ReadFile(where)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// over puts given values over a chart's own: objects key by key, everything else as a whole, null takes a key away.
func over(base, given object) object {
	result := object{}
	for key, value := range base {
		result[key] = value
	}
	for key, value := range given {
		below, isObject := result[key].(object)
		above, givenObject := value.(object)
		switch {
		case value == nil:
			delete(result, key)
		case isObject && givenObject:
			result[key] = over(below, above)
		default:
			result[key] = value
		}
	}
	return result
}

// top is what a template sees as its dot.
func top(chart, values object, asked request, all files) object {
	shown := object{}
	for key, value := range chart {
		shown[strings.ToUpper(key[:1])+key[1:]] = value
	}
	extra := files{}
	for name, content := range all {
		known := name == "Chart.yaml" || name == "values.yaml" || name == "values.schema.json"
		if !known && !strings.HasPrefix(name, "templates/") && !strings.HasPrefix(name, "charts/") {
			extra[name] = content
		}
	}
	kubernetes := object{"Version": "v1.29.0", "GitVersion": "v1.29.0", "Major": "1", "Minor": "29"}
	release := object{"Name": asked.Release, "Namespace": asked.Namespace, "Service": "Helm", "Revision": 1}
	release["IsInstall"], release["IsUpgrade"] = true, false
	return object{
		"Chart":        shown,
		"Values":       values,
		"Release":      release,
		"Capabilities": object{"KubeVersion": kubernetes, "APIVersions": apiVersions{"v1", "apps/v1"}},
		"Files":        extra,
		"Subcharts":    object{},
	}
}

func render(all files, dot object) (map[string]string, error) {
	set := template.New("gotpl").Option("missingkey=zero")
	set.Funcs(functions(set))
	names := []string{}
	for name := range all {
		if strings.HasPrefix(name, "templates/") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	chart := dot["Chart"].(object)["Name"].(string)
	for _, name := range names {
		if _, err := set.New(path.Join(chart, name)).Parse(string(all[name])); err != nil {
			return nil, err
		}
	}
	rendered := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		dot["Template"] = object{"Name": path.Join(chart, name), "BasePath": path.Join(chart, "templates")}
		text, err := execute(set, path.Join(chart, name), dot)
		if err != nil {
			return nil, err
		}
		rendered[name] = text
	}
	return rendered, nil
}

// execute: Go writes <no value> for what is not there, with any option; Helm takes that out of what is rendered.
func execute(set *template.Template, name string, dot interface{}) (string, error) {
	var text bytes.Buffer
	err := set.ExecuteTemplate(&text, name, dot)
	return strings.Replace(text.String(), "<no value>", "", -1), err
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// split reads the manifests. A key that is given twice is a mistake of a template: Helm would take the last one.
func split(rendered map[string]string) ([]object, error) {
	documents := []object{}
	for name, text := range rendered {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, each := range separator.Split(text, -1) {
			document := object{}
			if err := yaml.UnmarshalStrict([]byte(each), &document); err != nil {
				return nil, fmt.Errorf("%s: %v", name, err)
			}
			if len(document) > 0 {
				documents = append(documents, document)
			}
		}
	}
	return documents, nil
}

func functions(set *template.Template) template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = toYAML
	functions["fromYaml"] = func(text string) object {
		read := object{}
		if err := yaml.Unmarshal([]byte(text), &read); err != nil {
			read["Error"] = err.Error()
		}
		return read
	}
	functions["fromYamlArray"] = func(text string) []interface{} {
		read := []interface{}{}
		if err := yaml.Unmarshal([]byte(text), &read); err != nil {
			read = []interface{}{err.Error()}
		}
		return read
	}
	functions["toJson"] = func(value interface{}) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	functions["fromJson"] = functions["fromYaml"]
	functions["include"] = func(name string, dot interface{}) (string, error) {
		var text bytes.Buffer
		err := set.ExecuteTemplate(&text, name, dot)
		return text.String(), err
	}
	functions["tpl"] = func(text string, dot interface{}) (string, error) {
		own, err := set.Clone()
		if err != nil {
			return "", err
		}
		if _, err := own.New("tpl").Parse(text); err != nil {
			return "", err
		}
		return execute(own, "tpl", dot)
	}
	functions["required"] = func(warning string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, errors.New(warning)
		}
		return value, nil
	}
	functions["lookup"] = func(string, string, string, string) object { return object{} }
	functions["getHostByName"] = func(string) string { return "" }
	return functions
}

func toYAML(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return "" // as in Helm, which says nothing either
	}
	return strings.TrimSuffix(string(text), "\n")
}

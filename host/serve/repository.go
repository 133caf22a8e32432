// The repository of models and their load states. Clients specify models by name, never by file.

package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/serve/oip"
)

// Suffix is the suffix of bundles in a repository's folder.
const Suffix = ".sluice"

// ErrName is the error for a bundle with a name that clients cannot use, or for settings without a bundle.
var ErrName = errors.New("model repository")

// entry is one version of a model, loaded or not.
type entry struct {
	path    string
	model   *Model // nil: not loaded
	wanted  bool   // the version should be loaded
	loading bool
	reason  string // why the last load failed
}

func (e *entry) ready() bool { return e.model != nil && e.model.alive() }

// Index is the repository's entry for one version.
type Index struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"` // READY, UNAVAILABLE, LOADING
	Reason  string `json:"reason,omitempty"`
}

// Add adds a bundle, or all bundles of a folder, to the repository, without loading them. NAME@VERSION.sluice is a
// version of model NAME; NAME.sluice is version 1. The optional NAME.yaml contains the model's settings,
// NAME@VERSION.yaml a version's settings. Files with invalid names and settings without a bundle are skipped; the error
// lists them.
func (s *Server) Add(path string) error {
	s.mu.Lock()
	s.paths = append(s.paths, path)
	s.mu.Unlock()
	return s.scan(path, "")
}

// scan adds the new bundles of a path, for one model or for all models ("").
func (s *Server) scan(path, model string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("model repository: %w", err)
	}
	files, settings := []string{path}, []string(nil)
	if info.IsDir() {
		list, err := os.ReadDir(path)
		if err != nil {
			return fmt.Errorf("model repository: %w", err)
		}
		files = nil
		for _, f := range list {
			switch filepath.Ext(f.Name()) {
			case Suffix:
				files = append(files, filepath.Join(path, f.Name()))
			case ".yaml", ".yml":
				settings = append(settings, filepath.Join(path, f.Name()))
			}
		}
		if len(files) == 0 {
			return fmt.Errorf("model repository %s: no *%s in it: put bundles there, as dse compile writes them: NAME%s, NAME@VERSION%s", path, Suffix, Suffix, Suffix)
		}
	}
	if path := files[0]; len(files) == 1 && filepath.Ext(path) != Suffix {
		return fmt.Errorf("model repository: %q: expected a folder or NAME%s, as dse compile makes it of a network", path, Suffix)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var bad error
	for _, f := range files {
		name, version, versioned := strings.Cut(strings.TrimSuffix(filepath.Base(f), Suffix), "@")
		if model != "" && name != model {
			continue
		}
		if !versioned {
			version = "1"
		}
		other := s.models[name][version]
		if other != nil && other.path == f {
			continue // already in the repository
		}
		if other != nil && !other.loading {
			if _, err := os.Stat(other.path); errors.Is(err, os.ErrNotExist) { // the other file has been renamed
				other.path = f
				continue
			}
		}
		if other != nil {
			err = fmt.Errorf("it is version %s of %s, as %s is: rename one to %s@%d%s", version, name, other.path, name, len(s.models[name])+1, Suffix)
		} else {
			err = named(name, version)
		}
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("%w: %q: %w", ErrName, f, err))
			continue
		}
		if s.models[name] == nil {
			s.models[name] = map[string]*entry{}
		}
		s.models[name][version] = &entry{path: f, reason: "not loaded"}
	}
	for _, f := range settings {
		name, is := strings.CutSuffix(filepath.Base(f), ".yaml")
		of, version, _ := strings.Cut(name, "@")
		known := s.models[name] != nil || s.models[of][version] != nil || slices.Contains(files, filepath.Join(path, name+Suffix))
		if is && known || model != "" && of != model {
			continue
		}
		bad = errors.Join(bad, fmt.Errorf("%w: %q has the settings of no model: expected NAME.yaml or NAME@VERSION.yaml beside such a bundle", ErrName, f))
	}
	return bad
}

// named rejects an invalid model name or version.
func named(name, version string) error {
	if n, err := strconv.Atoi(version); err != nil || n < 1 || strconv.Itoa(n) != version {
		return fmt.Errorf("version %q: expected a whole number from 1 on", version)
	}
	switch name {
	case "stats", ".", "..": // REST uses /models/stats for all models, and a path cannot contain . or .. as a name
	case oip.GRPCInferenceService_ServiceDesc.ServiceName: // health checks use this name for the whole server
	default:
		// protobuf rejects a whole message if a text in it is not UTF-8
		if name != "" && utf8.ValidString(name) && !strings.ContainsAny(name, "/ ") && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return nil
		}
	}
	return fmt.Errorf("no model can have the name %q: rename it", name)
}

// LoadAll loads every version of every model.
func (s *Server) LoadAll() error {
	s.mu.Lock()
	for _, versions := range s.models {
		for _, e := range versions {
			e.wanted = true
		}
	}
	s.mu.Unlock()
	var err error
	for _, i := range s.Index() {
		if bad := s.loadVersion(i.Name, i.Version); bad != nil && coded(bad).Code != Unavailable { // Unavailable: a client is loading it now
			err = errors.Join(err, bad)
		}
	}
	return err
}

// Load loads all versions of a model, including new ones. A loaded version is loaded again from its file; until then
// the old version serves requests. Versions without a file are unloaded and removed.
func (s *Server) Load(name string) error {
	s.mu.Lock()
	paths := slices.Clone(s.paths)
	s.mu.Unlock()
	var wrong error
	for _, p := range paths {
		if err := s.scan(p, name); err != nil {
			s.opts.Log.Error("not all of the repository can be read", "err", err)
			if errors.Is(err, ErrName) { // the error must not reveal the server's paths to clients
				wrong = errors.Join(wrong, refuse(Invalid, "%s", strings.ReplaceAll(err.Error(), filepath.Clean(p)+string(filepath.Separator), "")))
			}
		}
	}
	err := s.forget(name)
	if wrong != nil && !s.has(name) {
		return errors.Join(wrong, err)
	}
	return errors.Join(err, s.each(name, s.loadVersion))
}

// forget unloads the versions of a model whose files no longer exist.
func (s *Server) forget(name string) error {
	s.mu.Lock()
	var gone []*Model
	for version, e := range s.models[name] {
		if _, err := os.Stat(e.path); e.loading || !errors.Is(err, os.ErrNotExist) {
			continue
		}
		delete(s.models[name], version)
		s.opts.Log.Info("model unloaded, its file has gone", "model", name, "version", version)
		if e.model != nil {
			gone = append(gone, e.model)
		}
	}
	if len(s.models[name]) == 0 {
		delete(s.models, name)
	}
	s.mu.Unlock()
	var err error
	for _, m := range gone {
		err = errors.Join(err, s.devices.leave(m))
	}
	return err
}

// Unload unloads all versions of a model after their requests have ended.
func (s *Server) Unload(name string) error {
	return s.each(name, func(name, version string) error {
		s.mu.Lock()
		e := s.models[name][version]
		if e.loading {
			s.mu.Unlock()
			return loading(name)
		}
		m := e.model
		e.model, e.wanted, e.reason = nil, false, "unloaded"
		s.mu.Unlock()
		if m == nil {
			return nil
		}
		s.opts.Log.Info("model unloaded", "model", name, "version", version)
		return s.devices.leave(m)
	})
}

func (s *Server) each(name string, f func(name, version string) error) error {
	end, err := s.begin()
	if err != nil {
		return err
	}
	defer end()
	var all []string
	for _, i := range s.Index() {
		if i.Name == name {
			all = append(all, i.Version)
		}
	}
	if all == nil {
		return refuse(NotFound, "no model %q in the repository", name)
	}
	var bad []error
	for _, v := range all { // after an error in one version, the other versions are still unloaded
		if err := f(name, v); err != nil {
			bad = append(bad, err)
		}
	}
	if len(bad) < 2 {
		return errors.Join(bad...)
	}
	return refuse(coded(bad[0]).Code, "%v", errors.Join(bad...))
}

func loading(name string) error {
	return refuse(Unavailable, "model %s is being loaded: ask again when it is ready", name)
}

func (s *Server) loadVersion(name, version string) error {
	s.mu.Lock()
	e := s.models[name][version]
	if e.loading {
		s.mu.Unlock()
		return loading(name)
	}
	e.loading, e.wanted = true, true
	s.mu.Unlock()
	m, err := s.read(name, version, e.path)
	s.mu.Lock()
	old, why := e.model, ""
	stopped := err == nil && s.ctx.Err() != nil // the server was stopped meanwhile, and has not closed this new model
	if e.loading = false; err != nil {
		// clients can read this text, so it must not contain the server's paths
		why = strings.ReplaceAll(err.Error(), filepath.Dir(e.path)+string(filepath.Separator), "")
		e.reason, e.wanted = why, old != nil
		if old != nil {
			e.reason = "the one loaded before serves on: " + why
		}
	} else if !stopped {
		e.model, e.reason = m, ""
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		s.opts.Log.Error("model not loaded", "model", name, "version", version, "err", err)
		return &Error{Code: Invalid, Text: why, cause: err}
	case stopped:
		return errors.Join(context.Cause(s.ctx), s.devices.leave(m))
	}
	if m.about.Warning != "" {
		s.opts.Log.Warn(m.about.Warning, "model", name, "version", version)
	}
	s.opts.Log.Info("model loaded", "model", name, "version", version, "device", m.on.name, "policy", m.set.Policy, "hash", fmt.Sprintf("%016x", m.hash))
	if old != nil {
		return s.devices.leave(old)
	}
	return nil
}

func (s *Server) read(name, version, path string) (*Model, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	b, err := bundle.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	set, err := readSettings(filepath.Join(dir, name+"@"+version+".yaml"))
	if err != nil {
		return nil, err
	}
	of, err := readSettings(filepath.Join(dir, name+".yaml"))
	if err != nil {
		return nil, err
	}
	return s.open(name, version, b, set.over(of))
}

// regular returns an error if path is not a regular file. For example, reading a pipe could block forever.
func regular(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: it is no regular file", path)
	}
	return nil
}

// maxSettings is the maximum size of a settings file in bytes.
const maxSettings = 1 << 16

// readSettings reads a settings file. If the file does not exist, the settings are empty.
func readSettings(path string) (Settings, error) {
	if err := regular(path); err != nil {
		return Settings{}, fmt.Errorf("model settings: %w", err)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Settings{}, nil
	} else if err != nil {
		return Settings{}, fmt.Errorf("model settings: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("it is longer than %d bytes", maxSettings)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("model settings %s: %w", path, err)
	}
	set, err := ParseSettings(text)
	if err != nil {
		return Settings{}, fmt.Errorf("model settings %s: %w", path, err)
	}
	return set, nil
}

// ParseSettings parses settings and rejects unknown keys.
func ParseSettings(text []byte) (Settings, error) {
	var s Settings
	text, err := plaintext.YAML(text)
	if err != nil {
		return Settings{}, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return Settings{}, errors.New(strings.ReplaceAll(err.Error(), " in type serve.Settings", ""))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Settings{}, errors.New("expected one document of YAML")
	}
	if s.Theta != nil && len(s.Theta) == 0 {
		return Settings{}, errors.New("theta is empty: expected one number, or one an exit")
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return Settings{}, err
	}
	for key, v := range keys { // zero and empty values would count as missing
		if text := fmt.Sprint(v); text == "" || text == "0" && key != "slo" && key != "theta" || strings.Contains(text, "<nil>") {
			return Settings{}, fmt.Errorf("%s is %q: leave it out for the default", key, text)
		}
		if n, is := v.(float64); is && n != math.Trunc(n) && key != "theta" { // the fraction would be dropped
			return Settings{}, fmt.Errorf("%s is %v: expected a whole number", key, v)
		}
	}
	alone := s
	if alone.Priorities == 0 { // the other settings file may set this key
		alone.Priorities = max(2, s.Priority)
	}
	return s, alone.check()
}

// Index lists the versions in the repository, sorted.
func (s *Server) Index() []Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Index
	for name, versions := range s.models {
		for version, e := range versions {
			i := Index{Name: name, Version: version, State: "UNAVAILABLE", Reason: e.reason}
			switch {
			case e.ready():
				i.State = "READY"
			case e.loading:
				i.State = "LOADING"
			case e.model != nil:
				i.Reason = "the device is lost"
			}
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b Index) int { return cmp.Or(cmp.Compare(a.Name, b.Name), newer(b.Version, a.Version)) })
	return out
}

// newer compares two versions as integers.
func newer(a, b string) int {
	x, _ := strconv.Atoi(a) // no error is possible: Add has checked the versions
	y, _ := strconv.Atoi(b)
	return cmp.Compare(y, x)
}

// model returns a loaded version of a model. If version is empty, it returns the newest loaded version.
func (s *Server) model(name, version string) (*Model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions, ok := s.models[name]
	if !ok {
		return nil, refuse(NotFound, "no model %q: see the repository's index for what there is", name)
	}
	if version == "" {
		for _, fits := range []func(e *entry) bool{(*entry).ready, func(e *entry) bool { return e.model != nil }} {
			for v, e := range versions {
				if fits(e) && (version == "" || newer(v, version) < 0) {
					version = v
				}
			}
			if version != "" {
				break
			}
		}
	}
	e := versions[version]
	switch {
	case version == "" && len(versions) == 1:
		for version, e = range versions {
		}
	case version == "":
		return nil, refuse(NotFound, "model %q is not ready: no version of it is loaded", name)
	case e == nil:
		return nil, refuse(NotFound, "model %q has no version %q", name, version)
	}
	if e.model == nil {
		return nil, refuse(NotFound, "model %q, version %q, is not ready: %s", name, version, cmp.Or(e.reason, "not loaded"))
	}
	return e.model, nil
}

// versions returns a model's loaded versions, oldest first.
func (s *Server) versions(name string) (out []string) {
	for _, i := range s.Index() {
		if i.Name == name && i.State == "READY" {
			out = append(out, i.Version)
		}
	}
	return out
}

// has reports whether the repository has a model, loaded or not.
func (s *Server) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[name] != nil
}

// modelReady reports whether a model answers requests. It returns false for an unknown model.
func (s *Server) modelReady(name, version string) bool {
	m, err := s.model(name, version)
	return err == nil && m.alive() && !s.leaving()
}

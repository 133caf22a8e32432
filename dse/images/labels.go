package images

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	maxClasses = 1 << 16
	maxName    = 256 // bytes of a class's name
)

// label fills in the classes of the images.
func (s *Set) label(path string, folder bool, o Options) error {
	s.Classes = o.Classes
	how := o.Labels
	if how == "" {
		how = "none"
		if folder && s.inFolders(path) {
			how = "folders"
		} else if beside := labelsBeside(path); !folder && beside != "" {
			how = beside
		}
	}
	switch {
	case how == "none":
		return nil
	case how == "folders":
		if !folder {
			return fmt.Errorf("%s: %w: it is no folder of folders", path, ErrLabels)
		}
		return s.byFolder(path)
	case strings.HasSuffix(how, ".csv"):
		return s.byCSV(path, folder, how)
	}
	labels, err := integers(how)
	if err != nil {
		return err
	}
	if len(labels) != len(s.names) {
		return fmt.Errorf("%s: %w: %d labels for the %d images of %s", how, ErrLabels, len(labels), len(s.names), path)
	}
	for i, l := range labels {
		if l < 0 || l >= maxClasses {
			return fmt.Errorf("%s: %w: label %d is %d, expected 0 to %d", how, ErrLabels, i, l, maxClasses-1)
		}
	}
	s.Labels = labels
	return nil
}

// folderOf is the first folder below dir on the way to an image, "" for one that lies in dir itself.
func folderOf(dir, path string) string {
	rest, err := filepath.Rel(dir, path)
	if err != nil {
		return ""
	}
	first, _, below := strings.Cut(filepath.ToSlash(rest), "/")
	if !below {
		return ""
	}
	return first
}

func (s *Set) inFolders(dir string) bool {
	seen := map[string]bool{}
	for _, path := range s.names {
		seen[folderOf(dir, path)] = true
	}
	return !seen[""] && (len(seen) > 1 || s.Classes != nil)
}

// byFolder takes the folder that an image lies in for its class.
func (s *Set) byFolder(dir string) error {
	names := make([]string, len(s.names))
	for i, path := range s.names {
		if names[i] = folderOf(dir, path); names[i] == "" {
			return fmt.Errorf("%s: %w: it lies in no folder of a class", path, ErrLabels)
		}
	}
	if s.Classes == nil {
		all := slices.Clone(names)
		slices.Sort(all)
		all = slices.Compact(all)
		if numbers(all) {
			s.Labels = make([]int, len(names))
			for i, name := range names {
				s.Labels[i], _ = strconv.Atoi(name) // numbers says that it is one
			}
			return nil
		}
		s.Classes = all
	}
	s.Labels = make([]int, len(names))
	for i, name := range names {
		var err error
		if s.Labels[i], err = s.class(name); err != nil {
			return fmt.Errorf("%s: %w", s.names[i], err)
		}
	}
	return nil
}

func numbers(names []string) bool {
	for _, n := range names {
		if v, err := strconv.Atoi(n); err != nil || v < 0 || v >= maxClasses || strconv.Itoa(v) != n && !strings.HasPrefix(n, "0") {
			return false
		}
	}
	return true
}

// class is a name's place in the list, or a number as it is.
func (s *Set) class(name string) (int, error) {
	if i := slices.Index(s.Classes, name); i >= 0 {
		return i, nil
	}
	v, err := strconv.Atoi(name)
	if err != nil || v < 0 || v >= maxClasses {
		if s.Classes != nil {
			return 0, fmt.Errorf("%w: class %q is none of the %d named", ErrLabels, name, len(s.Classes))
		}
		return 0, fmt.Errorf("%w: %q is no number from 0; --classes names the classes in the order of the logits", ErrLabels, name)
	}
	return v, nil
}

// byCSV reads a class for each image; files are named as they lie below the folder of the images.
func (s *Set) byCSV(path string, folder bool, file string) error {
	if !folder {
		return fmt.Errorf("%s: %w: a CSV names the files of a folder, %s is none", file, ErrLabels, path)
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	defer f.Close()
	named, err := parseLabels(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var names []string
	for i := range s.names {
		rest, err := filepath.Rel(path, s.names[i])
		if err != nil {
			return fmt.Errorf("labels: %w", err)
		}
		l, ok := named[filepath.ToSlash(rest)]
		if !ok {
			return fmt.Errorf("%s: %w: it has no line for %s", file, ErrLabels, rest)
		}
		names = append(names, l)
	}
	if s.Classes == nil && !numbers(names) {
		s.Classes = slices.Clone(names)
		slices.Sort(s.Classes)
		s.Classes = slices.Compact(s.Classes)
	}
	s.Labels = make([]int, len(names))
	for i, name := range names {
		if s.Labels[i], err = s.class(name); err != nil {
			return fmt.Errorf("%s: %s: %w", file, s.names[i], err)
		}
	}
	return nil
}

// parseLabels reads a CSV with the columns file and label, among others.
func parseLabels(r io.Reader) (map[string]string, error) {
	c := csv.NewReader(bufio.NewReader(r))
	c.ReuseRecord = true
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: the header: %v", ErrLabels, err)
	}
	file, label := slices.Index(head, "file"), slices.Index(head, "label")
	if file < 0 || label < 0 {
		return nil, fmt.Errorf("%w: line 1 is %q, expected the columns file and label", ErrLabels, strings.Join(head, ","))
	}
	named := map[string]string{}
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return named, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrLabels, err)
		}
		line, _ := c.FieldPos(0)
		key := filepath.ToSlash(filepath.Clean(row[file]))
		switch _, twice := named[key]; {
		case twice:
			return nil, fmt.Errorf("%w: line %d: %s is there twice", ErrLabels, line, row[file])
		case row[label] == "" || len(row[label]) > maxName:
			return nil, fmt.Errorf("%w: line %d: label %.40q, expected a class of 1 to %d bytes", ErrLabels, line, row[label], maxName)
		case len(named) >= maxFiles:
			return nil, fmt.Errorf("%w: line %d: more than %d", ErrLabels, line, maxFiles)
		}
		named[key] = row[label]
	}
}

// LoadClasses reads the names of classes, one a line, in the order of the logits.
func LoadClasses(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("classes: %w", err)
	}
	defer f.Close()
	names, err := parseClasses(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

func parseClasses(r io.Reader) ([]string, error) {
	var names []string
	seen := map[string]int{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name := strings.TrimSpace(lines.Text())
		n := len(names) + 1
		switch {
		case name == "" || len(name) > maxName:
			return nil, fmt.Errorf("%w: line %d: expected a name of 1 to %d bytes", ErrLabels, n, maxName)
		case seen[name] > 0:
			return nil, fmt.Errorf("%w: line %d: %q is line %d too", ErrLabels, n, name, seen[name])
		case n > maxClasses:
			return nil, fmt.Errorf("%w: more than %d classes", ErrLabels, maxClasses)
		}
		seen[name] = n
		names = append(names, name)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %v", ErrLabels, len(names)+1, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no names", ErrLabels)
	}
	return names, nil
}

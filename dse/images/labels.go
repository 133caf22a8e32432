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

	"github.com/sluice-npu/sluice/dse/plaintext"
)

const (
	maxClasses = 1 << 16
	maxName    = 256 // maximum length of a class's name, in bytes
)

func (s *Set) label(path string, folder bool, o Options) error {
	s.Classes = o.Classes
	how := o.Labels
	if how == "" {
		how = "none"
		if folder && s.inFolders(path) {
			if o.Classes != nil || o.Logits == 0 || len(s.dirs) == o.Logits {
				how = "folders"
			} else {
				s.note("labels", fmt.Sprintf("%s: its folders are not taken for classes: %s", path, unordered("folders", s.dirs, o.Logits)))
			}
		} else if beside := labelsBeside(path); !folder && beside != "" {
			how = beside
		} else if folder && len(s.dirs) > 1 {
			s.noteStray(path)
		}
	}
	switch {
	case how == "none":
		return nil
	case how == "folders":
		if !folder {
			return fmt.Errorf("%s: %w: it is no folder of folders", path, ErrLabels)
		}
		return s.byFolder(path, o.Logits)
	case how == "numbers":
		if !folder {
			return fmt.Errorf("%s: %w: it is no folder of folders", path, ErrLabels)
		}
		return s.byNumber(path)
	case strings.HasSuffix(how, ".csv"):
		return s.byCSV(path, folder, how, o.Logits)
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

// noteStray adds a note if some pictures are in folders that could be classes, and other pictures are not in folders.
func (s *Set) noteStray(dir string) {
	stray := slices.IndexFunc(s.names, func(path string) bool { return folderOf(dir, path) == "" })
	if stray < 0 || !slices.ContainsFunc(s.names, func(path string) bool { return folderOf(dir, path) != "" }) {
		return
	}
	s.note("labels", fmt.Sprintf("%s: its %d folders are not taken for classes, as %s lies beside them", dir, len(s.dirs), filepath.Base(s.names[stray])))
}

// folderOf returns the first folder below dir in the path of an image; "" if the image is directly in dir.
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

// FolderClasses returns the names of the class folders of a set that Open read from dir. It returns nil if the number
// of folders differs from the network's number of classes, or if the names are numbers.
func (s *Set) FolderClasses(dir string, logits int) []string {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !s.inFolders(dir) || len(s.dirs) != logits || numbers(s.dirs) {
		return nil
	}
	return slices.Clone(s.dirs)
}

// named uses names as classes, in alphabetical order. It returns an error if their number differs from logits.
func (s *Set) named(names []string, logits int) error {
	all := slices.Clone(names)
	slices.Sort(all)
	all = slices.Compact(all)
	if logits > 0 && len(all) != logits {
		return fmt.Errorf("%w: %s", ErrLabels, unordered("names", all, logits))
	}
	s.Classes = all
	return nil
}

// figure reports whether a name looks like a number but cannot be the number of a class, for example -1 or 1.0.
func figure(name string) bool {
	if numbers([]string{name}) || !strings.ContainsAny(name[:min(1, len(name))], "+-.0123456789") {
		return false
	}
	_, err := strconv.ParseFloat(name, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// byFolder uses an image's folder as its class. The class is the index of the folder's name in text order, as in
// torchvision's ImageFolder and Keras' image_dataset_from_directory.
func (s *Set) byFolder(dir string, logits int) error {
	names, err := s.folderNames(dir)
	if err != nil {
		return err
	}
	known, classes := s.Classes != nil, s.Classes
	if !known {
		if classes = s.dirs; logits > 0 && len(classes) != logits {
			return fmt.Errorf("%s: %w: %s", dir, ErrLabels, unordered("folders", classes, logits))
		}
		if s.Classes = classes; numbers(classes) {
			s.Classes = nil // the numbers are no names of classes, and their order may differ from the order of the classes
			s.noteNumbers(dir)
		}
	}
	s.Labels = make([]int, len(names))
	for i, name := range names {
		if s.Labels[i] = slices.Index(classes, name); s.Labels[i] < 0 {
			return fmt.Errorf("%s: %w: class %q is none of the %d named; where folders are numbers of classes, --labels numbers takes them", s.names[i], ErrLabels, name, len(classes))
		}
	}
	return nil
}

// byNumber uses the number in the folder's name as the class.
func (s *Set) byNumber(dir string) error {
	names, err := s.folderNames(dir)
	if err != nil {
		return err
	}
	s.Labels = make([]int, len(names))
	as := map[int]string{}
	for i, name := range names {
		if !numbers([]string{name}) {
			return fmt.Errorf("%s: %w: its folder is %q, expected a number from 0 to %d", s.names[i], ErrLabels, name, maxClasses-1)
		}
		n, _ := strconv.Atoi(name) // numbers has checked it
		if other, ok := as[n]; ok && other != name {
			return fmt.Errorf("%s: %w: the folders %s and %s are one number", dir, ErrLabels, other, name)
		}
		s.Labels[i], as[n] = n, name
	}
	return nil
}

func (s *Set) folderNames(dir string) ([]string, error) {
	names := make([]string, len(s.names))
	for i, path := range s.names {
		if names[i] = folderOf(dir, path); names[i] == "" {
			return nil, fmt.Errorf("%s: %w: it lies in no folder of a class", path, ErrLabels)
		}
	}
	return names, nil
}

// noteNumbers adds a note if the folders' names are numbers that differ from their indices.
func (s *Set) noteNumbers(dir string) {
	for i, name := range s.dirs {
		if n, _ := strconv.Atoi(name); n != i {
			s.note("numbers", fmt.Sprintf("%s: folders that are numbers are classes in the order of their names as text, as torchvision and Keras load them: %s is class %d; --labels numbers takes the number for the class", dir, name, i))
			return
		}
	}
}

// unordered returns a text that explains why the order of names cannot be the order of the classes.
func unordered(what string, names []string, logits int) string {
	text := fmt.Sprintf("%d %s of classes for the %d of the network, so their order among the logits is not known; --classes names them in that order", len(names), what, logits)
	if numbers(names) {
		text += ", --labels numbers takes the numbers of folders for classes"
	}
	return text
}

func numbers(names []string) bool {
	for _, n := range names {
		if v, err := strconv.Atoi(n); err != nil || v < 0 || v >= maxClasses || strconv.Itoa(v) != n && !strings.HasPrefix(n, "0") {
			return false
		}
	}
	return true
}

// class returns the index of a name in Classes. Otherwise the name must be a number, and class returns its value.
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

// byCSV reads a class for each image. File names are relative to the folder of the images.
func (s *Set) byCSV(path string, folder bool, file string, logits int) error {
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
			return fmt.Errorf("%s: %w: it has no line for %s%s", file, ErrLabels, rest, s.stray(path, named))
		}
		if figure(l.label) && !slices.Contains(s.Classes, l.label) {
			return fmt.Errorf("%s: %w: line %d: label %q, expected a name or a number from 0 to %d", file, ErrLabels, l.line, l.label, maxClasses-1)
		}
		names = append(names, l.label)
	}
	if s.Classes == nil && !numbers(names) {
		if err := s.named(names, logits); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	s.Labels = make([]int, len(names))
	for i, name := range names {
		if s.Labels[i], err = s.class(name); err != nil {
			return fmt.Errorf("%s: %s: %w", file, s.names[i], err)
		}
	}
	return nil
}

// stray returns a text about the first line whose file is not one of the pictures. It shows the code points of special
// characters, because two names may look equal.
func (s *Set) stray(path string, named map[string]labelled) string {
	for _, name := range s.names {
		if rest, err := filepath.Rel(path, name); err == nil {
			delete(named, filepath.ToSlash(rest))
		}
	}
	first, line := "", 0
	for name, l := range named {
		if line == 0 || l.line < line {
			first, line = name, l.line
		}
	}
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("; line %d is for %+q, which is none of the pictures read", line, first)
}

// labelled is the label of a file, and the label's line in the CSV.
type labelled struct {
	label string
	line  int
}

// parseLabels reads a CSV with the columns file and label. Other columns are ignored.
func parseLabels(r io.Reader) (map[string]labelled, error) {
	c := csv.NewReader(plaintext.NewReader(r))
	c.ReuseRecord = true
	head, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: the header: %w", ErrLabels, err)
	}
	at, err := plaintext.Columns(head, "file", "label")
	if err != nil {
		return nil, fmt.Errorf("%w: line 1: %w", ErrLabels, err)
	}
	file, label := at[0], at[1]
	if file < 0 || label < 0 {
		return nil, fmt.Errorf("%w: line 1 is %q, expected the columns file and label, separated by commas", ErrLabels, strings.Join(head, ","))
	}
	named := map[string]labelled{}
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return named, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrLabels, err)
		}
		line, _ := c.FieldPos(0)
		row[file], row[label] = strings.TrimSpace(row[file]), strings.TrimSpace(row[label])
		key := filepath.ToSlash(filepath.Clean(row[file]))
		switch _, twice := named[key]; {
		case twice:
			return nil, fmt.Errorf("%w: line %d: %s is there twice", ErrLabels, line, row[file])
		case row[label] == "" || len(row[label]) > maxName:
			return nil, fmt.Errorf("%w: line %d: label %.40q, expected a class of 1 to %d bytes", ErrLabels, line, row[label], maxName)
		case len(named) >= maxFiles:
			return nil, fmt.Errorf("%w: line %d: more than %d", ErrLabels, line, maxFiles)
		}
		named[key] = labelled{row[label], line}
	}
}

// LoadClasses reads the names of classes, one per line, in the order of the logits.
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
	lines := bufio.NewScanner(plaintext.NewReader(r))
	last := 0 // line of the last name
	for n := 1; lines.Scan(); n++ {
		name := strings.TrimSpace(lines.Text())
		switch {
		case name == "" && n > 1: // for example an additional newline after the last name
			continue
		case n > last+1: // an error, because an empty line between names would shift the later classes
			return nil, fmt.Errorf("%w: line %d is empty, expected a name", ErrLabels, last+1)
		case name == "" || len(name) > maxName:
			return nil, fmt.Errorf("%w: line %d: expected a name of 1 to %d bytes", ErrLabels, n, maxName)
		case seen[name] > 0:
			return nil, fmt.Errorf("%w: line %d: %q is line %d too", ErrLabels, n, name, seen[name])
		case n > maxClasses:
			return nil, fmt.Errorf("%w: more than %d classes", ErrLabels, maxClasses)
		}
		seen[name], last = n, n
		names = append(names, name)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrLabels, len(names)+1, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no names", ErrLabels)
	}
	return names, nil
}

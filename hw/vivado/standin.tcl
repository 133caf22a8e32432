# A stand-in for Vivado that records and refuses: it lets through what allowed.txt lists, no other command, option,
# property or parameter of IP, keeps as much state as it takes to refuse what could not be there (a file that was
# not added, a port or an interface that the top does not have), and writes each call down. It knows nothing of
# hardware: a script that passes has the form that the guides describe, and has never run in Vivado.
#
#   tclsh standin.tcl ALLOWED RECORD SCRIPT [ARG...]
#
# SLUICE_STANDIN_VIVADO is the version that it stands in for (2022.2): it decides the versions of cores.
# SLUICE_STANDIN_BOARDS, where set, are the board files that are installed, else every one is.
# SLUICE_STANDIN_MAP, pairs of a path and a name, is applied to what is recorded. SLUICE_STANDIN_TOP names the
# Verilog file whose ports an XDC may speak of. Status 1 where something is refused, with its place.

namespace eval standin {
  variable commands  ;# name -> {options least most class guide}
  variable properties ;# class,name -> pattern
  variable cores     ;# vlnv without version -> 1
  variable parameters ;# vlnv without version,parameter -> pattern
  variable pins       ;# vlnv without version -> patterns of pins and interfaces
  variable ports      ;# vlnv without version -> {parameter default pattern clock} of what a parameter brings
  variable versions   ;# vlnv without version -> {tool version} pairs
  variable record
  variable map [list]
  variable state     ;# project, files, filesets, ports, busifs, cells
  array set commands {}
  array set properties {}
  array set cores {}
  array set parameters {}
  array set pins {}
  array set ports {}
  array set versions {}
  array set state {project {} files {} ports {} busifs {} core {}}
}

proc standin::refuse {what} { return -code error -errorcode {STANDIN} "stand-in: $what" }

# The table. Fields are cut at " | ", since patterns hold bars.
proc standin::read {path} {
  variable commands; variable properties; variable cores; variable parameters; variable pins; variable ports; variable versions
  set n 0
  set f [open $path r]
  foreach line [split [::read $f] "\n"] {
    incr n
    set line [string trim $line]
    if {$line eq "" || [string index $line 0] eq "#"} { continue }
    set fields [list]
    foreach field [split [string map [list " | " "\x01"] $line] "\x01"] { lappend fields [string trim $field] }
    set guide [lindex $fields end]
    if {![regexp {^(UG|PG|PB|DS)[0-9]+} $guide]} { error "$path:$n: expected a guide (UG..., PG...) at the end, found: $guide" }
    switch -- [lindex $fields 0],[llength $fields] {
      command,4 {
        set options [dict create]
        set least 0; set most 0; set class {}
        set words [split [lindex $fields 2]]
        for {set i 0} {$i < [llength $words]} {incr i} {
          set w [lindex $words $i]
          if {[regexp {^(-[A-Za-z_0-9]+)(=?)$} $w -> name value]} {
            dict set options $name [expr {$value ne ""}]
          } elseif {[regexp {^([0-9]+)(\.\.([0-9]*))?$} $w -> least range most]} {
            if {$range eq ""} { set most $least } elseif {$most eq ""} { set most 1000000 }
          } elseif {$w eq "->"} {
            set class [lindex $words [incr i]]
          } else { error "$path:$n: expected an option, a number of operands or a class, found: $w" }
        }
        set commands([lindex $fields 1]) [list $options $least $most $class]
      }
      property,5 { set properties([lindex $fields 1],[lindex $fields 2]) [lindex $fields 3] }
      ip,5 {
        set cores([lindex $fields 1]) 1
        set parameters([lindex $fields 1],[lindex $fields 2]) [lindex $fields 3]
      }
      pin,4 {
        set cores([lindex $fields 1]) 1
        lappend pins([lindex $fields 1]) [lindex $fields 2]
      }
      port,7 { lappend ports([lindex $fields 1]) [lrange $fields 2 5] }
      version,4 { set versions([lindex $fields 1]) [split [lindex $fields 2] " :"] }
      default { error "$path:$n: expected command, property or ip (or pin, port, version) and their fields, found: $line" }
    }
  }
  close $f
}

# One call: options and operands against the table, then what the command does, if anything.
proc standin::call {name words} {
  variable commands; variable record; variable map
  lassign $commands($name) options least most class
  set given [dict create]
  set operands [list]
  for {set i 0} {$i < [llength $words]} {incr i} {
    set w [lindex $words $i]
    if {[string match {-[a-zA-Z]*} $w]} {
      if {![dict exists $options $w]} { refuse "$name: there is no option $w" }
      if {[dict exists $given $w]} { refuse "$name: $w stands twice" }
      if {[dict get $options $w]} {
        if {[incr i] >= [llength $words]} { refuse "$name: $w lacks its value" }
        set value [lindex $words $i]
        # a compiler's flags are a value: more than one word
        if {$value eq "" || ([string match {-[a-zA-Z]*} $value] && ![string match {* *} $value])} { refuse "$name: $w lacks its value, found: $value" }
        dict set given $w $value
      } else { dict set given $w 1 }
    } else { lappend operands $w }
  }
  set n [llength $operands]
  if {$n < $least || $n > $most} { refuse "$name: expected $least..$most operands, found $n: $operands" }
  set handler ::standin::do_[string map {:: _} $name]
  if {[llength [info procs $handler]]} {
    set answer [$handler $given $operands $class]
  } elseif {$class ne ""} {
    set answer $class:[lindex $operands 0]
  } else { set answer "" }
  puts $record [string map $map [list $name {*}$words]]
  return $answer
}

proc standin::class {object} {
  if {![regexp {^([a-z_]+):} $object -> class]} { refuse "no object: $object" }
  return $class
}

proc standin::project {name} {
  variable state
  if {$state(project) eq ""} { refuse "$name: no project is open" }
}

proc standin::do_create_project {given operands class} {
  variable state
  if {$state(project) ne ""} { refuse "create_project: $state(project) is open" }
  if {![dict exists $given -part]} { refuse "create_project: which part?" }
  set state(project) [lindex $operands 0]
  return $class:$state(project)
}

proc standin::do_close_project {given operands class} {
  variable state
  project close_project
  set state(project) {}
}

proc standin::do_add_files {given operands class} {
  variable state
  project add_files
  set added [list]
  foreach f [concat {*}$operands] {
    if {![file isfile $f] && $f ne "wrapper.v"} { refuse "add_files: there is no file $f" }
    if {$f in $state(files)} { refuse "add_files: $f is there already" }
    lappend state(files) $f
    lappend added $class:$f
    if {[file extension $f] eq ".v" && $f ne "wrapper.v"} { standin::top $f }
  }
  return $added
}

# The ports and interfaces of a plain-Verilog top.
proc standin::top {path} {
  variable state
  set f [open $path r]
  set text [::read $f]
  close $f
  foreach {- name} [regexp -all -inline -line {^\s*(?:input|output)\s+wire\s+(?:\[[^\]]*\]\s*)?([A-Za-z0-9_]+)} $text] { lappend state(ports) $name }
  foreach {- name} [regexp -all -inline {XIL_INTERFACENAME ([A-Za-z0-9_]+),} $text] { lappend state(busifs) $name }
}

proc standin::do_get_filesets {given operands class} {
  project get_filesets
  set name [lindex $operands 0]
  if {$name ni {sources_1 constrs_1 sim_1}} { refuse "get_filesets: there is no set $name" }
  return $class:$name
}

proc standin::do_get_files {given operands class} {
  variable state
  project get_files
  set found [list]
  foreach f $state(files) {
    foreach p [concat {*}$operands] {
      if {[string match $p $f] || [string match $p [file tail $f]]} { lappend found $class:$f }
    }
  }
  if {![llength $found]} { refuse "get_files: nothing that was added is called $operands" }
  return $found
}

proc standin::do_get_ports {given operands class} {
  variable state
  set found [list]
  foreach p [lindex $operands 0] {
    if {$p ni $state(ports)} { refuse "get_ports: the top has no port $p" }
    lappend found $class:$p
  }
  return $found
}

proc standin::do_set_property {given operands class} {
  if {[dict exists $given -dict]} {
    if {[llength $operands] != 1} { refuse "set_property -dict: expected objects, found: $operands" }
    set pairs [dict get $given -dict]
  } else {
    if {[llength $operands] != 3} { refuse "set_property: expected a name, a value and objects, found: $operands" }
    set pairs [lrange $operands 0 1]
  }
  set objects [lindex $operands end]
  if {![llength $objects]} { refuse "set_property [lindex $pairs 0]: no objects" }
  foreach object $objects {
    foreach {name value} $pairs { property $object $name $value }
  }
}

proc standin::property {object name value} {
  variable properties; variable parameters; variable state
  set class [class $object]
  if {$class eq "cell" && [string match CONFIG.* $name]} {
    set vlnv $state($object)
    set key $vlnv,[string range $name 7 end]
    if {![info exists parameters($key)]} { refuse "set_property: $vlnv has no parameter $name" }
    set pattern $parameters($key)
  } else {
    if {![info exists properties($class,$name)]} { refuse "set_property: a $class has no property $name" }
    set pattern $properties($class,$name)
  }
  if {![regexp "^(?:$pattern)\$" $value]} { refuse "set_property: $name of a $class cannot be: $value" }
  if {$name eq "synth_checkpoint_mode"} { set state(checkpoint) $value }
  if {$class eq "cell"} { set state($object,[string range $name 7 end]) $value }
}

# synth_design reads the block design's sources: they are whole only where no cell is synthesised apart.
proc standin::do_generate_target {given operands class} {
  variable state
  if {![info exists state(checkpoint)] || $state(checkpoint) ne "None"} { refuse "generate_target: synth_checkpoint_mode is not None" }
}
proc standin::do_validate_bd_design {given operands class} {
  variable state; variable ports
  foreach cell [array names state cell:*] {
    if {![info exists ports($state($cell))]} { continue }
    foreach port $ports($state($cell)) {
      set clock bd_pin:[string range $cell 5 end]/[lindex $port 3]
      if {[on $cell $port] && ![info exists state(driven,$clock)]} {
        refuse "validate_bd_design: [lindex $port 0] is on, and its clock [lindex $port 3] is not connected"
      }
    }
  }
  set state(validated) 1
}

proc standin::do_create_clock {given operands class} {
  if {![dict exists $given -period] || ![string is double -strict [dict get $given -period]] || [dict get $given -period] <= 0} {
    refuse "create_clock: no period"
  }
  variable state
  set state(create_clock) 1
  foreach p [lindex $operands 0] { if {[class $p] ne "port"} { refuse "create_clock: no port: $p" } }
  return $class:[dict get $given -name]
}

proc standin::do_ipx_package_project {given operands class} {
  variable state
  project ipx::package_project
  foreach o {-root_dir -vendor -library -taxonomy} {
    if {![dict exists $given $o]} { refuse "ipx::package_project: $o is missing" }
  }
  if {![llength $state(busifs)]} { refuse "ipx::package_project: no top with interfaces was added" }
  set state(core) $class:packaged
  return $state(core)
}

proc standin::do_ipx_current_core {given operands class} {
  variable state
  if {$state(core) eq ""} { refuse "ipx::current_core: nothing is packaged" }
  return $state(core)
}

proc standin::do_ipx_associate_bus_interfaces {given operands class} {
  variable state
  foreach o {-busif -clock -reset} {
    if {[dict exists $given $o] && [dict get $given $o] ni $state(busifs)} {
      refuse "ipx::associate_bus_interfaces: the top has no interface [dict get $given $o]"
    }
  }
  if {![dict exists $given -clock]} { refuse "ipx::associate_bus_interfaces: which clock?" }
}

# Cells of a block design. What vlnv a cell has decides about its parameters.
proc standin::do_create_bd_cell {given operands class} {
  variable cores; variable state; variable versions
  set name $class:[lindex $operands 0]
  if {[info exists state($name)]} { refuse "create_bd_cell: $name is there already" }
  if {[dict exists $given -vlnv]} {
    set vlnv [join [lrange [split [dict get $given -vlnv] :] 0 2] :]
    if {![info exists cores($vlnv)]} { refuse "create_bd_cell: there is no core $vlnv" }
    if {[info exists versions($vlnv)] && [dict get $given -vlnv] ne "$vlnv:[version $vlnv]"} {
      refuse "create_bd_cell: there is no core [dict get $given -vlnv], this Vivado has $vlnv:[version $vlnv]"
    }
    set state($name) $vlnv
  } else { set state($name) {} }
  return $name
}

# The catalogue's version of a core, in the Vivado that this stands in for.
proc standin::version {vlnv} {
  variable versions
  set tool 2022.2
  if {[info exists ::env(SLUICE_STANDIN_VIVADO)]} { set tool $::env(SLUICE_STANDIN_VIVADO) }
  set found ""
  foreach {from version} $versions($vlnv) {
    if {[package vcompare $from $tool] <= 0} { set found $version }
  }
  return $found
}

proc standin::do_get_ipdefs {given operands class} {
  variable versions
  if {![dict exists $given -filter] || ![regexp {^VLNV =~ (\S+)$} [dict get $given -filter] -> pattern]} {
    refuse "get_ipdefs: expected -filter {VLNV =~ pattern}"
  }
  set found [list]
  foreach vlnv [array names versions] {
    set version [version $vlnv]
    if {$version ne "" && [string match $pattern $vlnv:$version]} { lappend found $vlnv:$version }
  }
  return $found
}

proc standin::do_get_board_parts {given operands class} {
  if {![info exists ::env(SLUICE_STANDIN_BOARDS)] || [lindex $operands 0] in $::env(SLUICE_STANDIN_BOARDS)} { return $class:[lindex $operands 0] }
  return [list]
}

# Whether a parameter brings a port: as set, else as the core is by itself.
proc standin::on {cell port} {
  variable state
  lassign $port parameter on
  if {[info exists state($cell,$parameter)]} { set on $state($cell,$parameter) }
  return $on
}

# Pins and interfaces of cells: of a cell that is there, by what its core has.
proc standin::pins {what operands class} {
  variable state; variable pins; variable ports
  set found [list]
  foreach p [lindex $operands 0] {
    if {![regexp {^([a-z_]+)/([A-Za-z0-9_]+)$} $p -> cell pin]} { refuse "$what: expected cell/pin, found: $p" }
    if {![info exists state(cell:$cell)]} { refuse "$what: there is no cell $cell" }
    set core $state(cell:$cell)
    set ok 0
    if {[info exists pins($core)]} {
      foreach pattern $pins($core) { if {[regexp "^(?:$pattern)\$" $pin]} { set ok 1 } }
    }
    if {!$ok && [info exists ports($core)]} {
      foreach port $ports($core) {
        if {![regexp "^(?:[lindex $port 2])\$" $pin]} { continue }
        if {![on cell:$cell $port]} { refuse "$what: $core has no pin $pin while [lindex $port 0] is 0" }
        set ok 1
      }
    }
    if {!$ok} { refuse "$what: $core has no pin $pin" }
    lappend found $class:$p
  }
  return $found
}
proc standin::do_get_bd_pins {given operands class} { pins get_bd_pins $operands $class }
proc standin::do_get_bd_intf_pins {given operands class} { pins get_bd_intf_pins $operands $class }

# A pin is connected once, but that which drives may stand in several calls, first.
proc standin::connect {what operands} {
  variable state
  set rest [lrange $operands 1 end]
  if {[lindex $operands 0] in $rest} { refuse "$what: a pin with itself" }
  foreach o $rest {
    if {[info exists state(driven,$o)]} { refuse "$what: $o is connected already" }
    set state(driven,$o) 1
  }
}
proc standin::do_connect_bd_net {given operands class} { connect connect_bd_net $operands }
proc standin::do_connect_bd_intf_net {given operands class} {
  variable state
  connect connect_bd_intf_net $operands
  set first [lindex $operands 0]
  if {[info exists state(driven,$first)]} { refuse "connect_bd_intf_net: $first is connected already" }
  set state(driven,$first) 1
}

proc standin::do_create_bd_design {given operands class} {
  variable state
  project create_bd_design
  lappend state(files) [lindex $operands 0].bd
  return $class:[lindex $operands 0]
}
proc standin::do_make_wrapper {given operands class} {
  variable state
  if {![dict exists $given -files]} { refuse "make_wrapper: of what?" }
  return wrapper.v
}
proc standin::do_get_property {given operands class} {
  lassign $operands name object
  if {$name eq "SLACK" && [class $object] eq "path"} {
    if {[info exists ::env(SLUICE_STANDIN_SLACK)]} { return $::env(SLUICE_STANDIN_SLACK) }
    return 0.125
  }
  if {$name eq "CONFIG.FREQ_HZ" && [class $object] eq "bd_pin"} {
    variable state
    if {![info exists state(validated)]} { refuse "get_property: CONFIG.FREQ_HZ is known from validate_bd_design on" }
    return 149998499
  }
  refuse "get_property: a [class $object] has no property $name"
}

# vitis_hls: a project has solutions, and a step needs a top, a part and a clock before it.
proc standin::do_open_project {given operands class} {
  variable state
  if {$state(project) ne ""} { refuse "open_project: $state(project) is open" }
  set state(project) [lindex $operands 0]
  return $class:$state(project)
}

foreach name {set_top set_part open_solution} {
  proc standin::do_$name {given operands class} [string map [list NAME $name] {
    variable state
    project NAME
    set state(NAME) [lindex $operands 0]
    return $class:[lindex $operands 0]
  }]
}

foreach {name before} {csim_design {} csynth_design {} cosim_design csynth_design export_design csynth_design} {
  proc standin::do_$name {given operands class} [string map [list NAME $name BEFORE $before] {
    variable state
    project NAME
    foreach need {set_top open_solution set_part create_clock BEFORE} {
      if {![info exists state($need)]} { refuse "NAME: no $need before it" }
    }
    set state(NAME) 1
  }]
}

proc standin::main {args} {
  variable record; variable commands; variable map
  if {[llength $args] < 3} {
    puts stderr "usage: tclsh standin.tcl ALLOWED RECORD SCRIPT \[ARG...\]"
    exit 2
  }
  lassign $args allowed out script
  read $allowed
  if {[info exists ::env(SLUICE_STANDIN_MAP)]} { set map $::env(SLUICE_STANDIN_MAP) }
  if {[info exists ::env(SLUICE_STANDIN_TOP)]} { standin::top $::env(SLUICE_STANDIN_TOP) }
  set record [open $out w]
  foreach name [array names commands] {
    if {[set space [namespace qualifiers $name]] ne ""} { namespace eval ::$space {} }
    proc ::$name args "::standin::call $name \$args"
  }
  # what is neither Tcl's nor in the table; and nothing of the machine but files
  proc ::unknown {name args} { ::standin::refuse "there is no command $name" }
  foreach name {exec socket load} { rename ::$name {} }
  set ::argv0 $script
  set ::argv [lrange $args 3 end]
  set ::argc [llength $::argv]
  set status [catch {uplevel #0 [list source $script]} message options]
  close $record
  if {$status} {
    puts stderr [string map $map "$script:[dict get $options -errorline]: $message"]
    exit 1
  }
}

standin::main {*}$argv

create table person (id bigint primary key, name varchar, email_address varchar, credit_card varchar, city varchar, state varchar, date_time timestamp, extra varchar);
create table auction (id bigint primary key, item_name varchar, description varchar, initial_bid bigint, reserve bigint, date_time timestamp, expires timestamp, seller bigint, category bigint, extra varchar);
create table bid (id bigint primary key, auction bigint, bidder bigint, price bigint, channel varchar, url varchar, date_time timestamp, extra varchar, p_time timestamp default proctime());
create table side_input (key bigint primary key, value varchar);
